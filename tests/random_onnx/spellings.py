# SPDX-License-Identifier: Apache-2.0
"""Random ONNX graphs as exporters write what a pass takes together: sums of convolutions and BatchNorms of one image, and assignments to
a part of a tensor with a grid of positions. Some are such that the pass must leave them alone. A seed makes a graph again.
"""
import numpy as np
from onnx import helper, numpy_helper


class Writer:
    def __init__(self, seed):
        self.r = np.random.default_rng(seed)
        self.nodes, self.constants, self.inputs, self.count = [], [], {}, 0

    def some(self, *choices):
        return choices[int(self.r.integers(len(choices)))]

    def chance(self, share):
        return self.r.random() < share

    def floats(self, *shape):
        return self.r.standard_normal(shape).astype(np.float32)

    def input(self, *shape):
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.floats(*shape)
        return name

    def constant(self, array):
        name = f"k{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def integers(self, *values):
        return self.constant(np.array(values, np.int64))

    def add(self, op, *inputs, **attributes):
        self.count += 1
        name = f"v{self.count}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=f"{op}_{self.count}", **attributes))
        return name

    def model(self, result):
        infos = [helper.make_tensor_value_info(name, 1, array.shape) for name, array in self.inputs.items()]
        graph = helper.make_graph(self.nodes, "spellings", infos, [helper.make_tensor_value_info(result, 1, None)], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.inputs


def batch_norm(w, x, channels):
    statistics = (w.floats(channels), w.floats(channels), w.floats(channels), np.abs(w.floats(channels)) + np.float32(0.5))
    return w.add("BatchNormalization", x, *map(w.constant, statistics))


def convolution(w, x, dims, channels, filters, strides, groups):
    kernel, dilations = [w.some(1, 3, 3, 5) for _ in range(dims)], [w.some(1, 1, 2) for _ in range(dims)]
    pads = [(k - 1) * d // 2 for k, d in zip(kernel, dilations)]
    if w.chance(0.1):
        groups = 1
    weights = w.floats(filters, channels // groups, *kernel) / np.float32(np.sqrt(channels // groups * np.prod(kernel)))
    operands = [w.constant(weights)] + ([w.constant(w.floats(filters))] if w.chance(0.6) else [])
    y = w.add("Conv", x, *operands, kernel_shape=kernel, strides=strides, dilations=dilations, pads=pads * 2, group=groups)
    return batch_norm(w, y, filters) if w.chance(0.5) else y


def branches(w):
    """What networks with training branches are: a sum of convolutions of one image, of its BatchNorm and of itself."""
    dims, groups, channels = w.some(1, 2, 2, 3), w.some(1, 1, 2, 4), w.some(4, 8)
    filters, strides = w.some(channels, channels, 12), [w.some(1, 1, 2) for _ in range(dims)]
    x = w.input(2, channels, *(int(w.r.integers(5, 9)) for _ in range(dims)))
    keeps = filters == channels and set(strides) == {1}
    terms = []
    for _ in range(w.some(2, 3, 4)):
        kind = w.some("conv", "conv", "conv", "norm", "image")
        if kind == "norm" and keeps:
            terms.append(batch_norm(w, x, channels))
        elif kind == "image" and keeps:
            terms.append(x)
        else:
            terms.append(convolution(w, x, dims, channels, filters, strides, groups))
    while len(terms) > 1:
        a, b = terms.pop(0), terms.pop(0 if w.chance(0.7) else -1)
        terms.append(w.add("Add", a, b))
    return w.add("Relu", terms[0]) if w.chance(0.5) else w.add("Identity", terms[0])


def axis_positions(w, axis, axes, start, extents):
    """Positions along one axis as a tensor of the part's extents and 1, as the exporters of torch write them."""
    count = 1 if w.chance(0.1) else extents[axis]  # 1: the same position for all
    first, end, then = (start, start + count, 0) if w.chance(0.5) else (0, count, start)
    line = w.add("Range", *(w.constant(np.int64(v)) for v in (first, end, 1)))
    if then:
        line = w.add("Add", line, w.constant(np.int64(then)))
    line = w.add("Reshape", line, w.integers(*(count if i == axis else 1 for i in range(axes))))
    return w.add("Reshape", w.add("Expand", line, w.integers(*extents)), w.integers(*extents, 1))


def slice_update(w):
    """x[a:b, c:d] = u."""
    shape = [int(n) for n in w.r.integers(1, 6, int(w.r.integers(1, 5)))]
    axes = int(w.r.integers(1, len(shape) + 1))
    starts = [int(w.r.integers(0, n)) for n in shape[:axes]]
    extents = [int(w.r.integers(1, n - a + 1)) for n, a in zip(shape, starts)]
    if w.chance(0.2):
        starts, extents = [0] * axes, shape[:axes]
    x, u = w.input(*shape), w.input(*extents, *shape[axes:])
    if w.chance(0.3):
        grid = np.stack(np.meshgrid(*(np.arange(a, a + n) for a, n in zip(starts, extents)), indexing="ij"), axis=-1)
        indices = w.constant((grid[::-1] if w.chance(0.3) else grid).astype(np.int64).copy())
    else:
        parts = [axis_positions(w, i, axes, start, extents) for i, start in enumerate(starts)]
        indices = w.add("Concat", *parts, axis=-1)
    return w.add("Neg", w.add("ScatterND", x, indices, u))


def make(seed):
    w = Writer(seed)
    return w.model(w.some(branches, slice_update)(w))
