# SPDX-License-Identifier: Apache-2.0
"""A quantised ONNX graph that grows: nodes, constants, and what ONNX Runtime computes of each value so far.

Scales follow from the numbers that a value has, as a calibrator chooses them, so that integers use their
range and seldom saturate.
"""
import sys
import pathlib

import numpy as np
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))
import judge  # noqa: E402

OPSET, IR_VERSION = 21, 10
MICROSOFT = "com.microsoft"
TYPES = {"uint8": (0, 255), "int8": (-128, 127), "uint16": (0, 65535), "int16": (-32768, 32767), "uint4": (0, 15), "int4": (-8, 7)}
# Elements of a result and products that it sums up, so that the reference interpreter takes milliseconds; a
# few graphs have more.
MOST_ELEMENTS, MOST_PRODUCTS, LARGE = 10_000, 300_000, 8


class Quantised:
    """Integers on a grid: the names of the tensor, its scale and its zero point, and the grid itself."""

    def __init__(self, name, kind, scale, zero, scale_name, zero_name):
        self.name, self.kind, self.scale, self.zero = name, kind, scale, zero
        self.scale_name, self.zero_name = scale_name, zero_name

    def renamed(self, name):
        return Quantised(name, self.kind, self.scale, self.zero, self.scale_name, self.zero_name)

    @property
    def parameters(self):
        return [self.scale_name, self.zero_name]

    def same_grid(self, other):
        return (self.kind, self.scale, self.zero) == (other.kind, other.scale, other.zero)


class Graph:
    def __init__(self, seed):
        self.r = np.random.default_rng(seed)
        self.nodes, self.pending, self.constants, self.inputs, self.known = [], [], {}, {}, {}
        self.dequantised = {}  # float values by the quantised tensor that they come from
        self.steps = {}        # of float values: the step of their grid
        self.count = 0
        self.size = LARGE if self.chance(0.03) else 1

    # --- picks
    def chance(self, p):
        return self.r.random() < p

    def one_of(self, items):
        return items[int(self.r.integers(len(items)))]

    def whole(self, low, high):
        """From low to high, both included."""
        return int(self.r.integers(low, high + 1))

    def too_large(self, elements, terms=1):
        return elements > MOST_ELEMENTS * self.size or elements * terms > MOST_PRODUCTS * self.size

    # --- nodes and constants
    def new_name(self, front):
        self.count += 1
        return f"{front}{self.count}"

    def constant(self, array, kind=None):
        """`kind`: a type of few bits, which numpy lacks."""
        name = self.new_name("c")
        array = np.asarray(array)
        if kind in ("int4", "uint4"):
            tensor = helper.make_tensor(name, getattr(TensorProto, kind.upper()), array.shape, array.ravel().tolist())
        else:
            tensor = numpy_helper.from_array(array.astype(kind) if kind else array, name)
        self.constants[name] = tensor
        return name

    def ints(self, *numbers):
        return self.constant(np.array(numbers, np.int64))

    def add(self, operator, inputs, results=1, domain="", **attributes):
        names = [self.new_name("v") for _ in range(results)]
        node = helper.make_node(operator, inputs, names, name=f"{operator}_{names[0]}", domain=domain, **attributes)
        self.nodes.append(node)
        self.pending.append(node)
        return names[0] if results == 1 else names

    def input(self, array):
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.known[name] = array
        return name

    # --- numbers
    def value(self, name):
        if name not in self.known:
            made = [o for n in self.pending for o in n.output]
            read = dict.fromkeys(i for n in self.pending for i in n.input if i and i not in made)
            inputs = {i: self.known[i] for i in read if i not in self.constants}
            model = make_model(self.pending, {i: self.constants[i] for i in read if i in self.constants}, inputs,
                               [helper.make_empty_tensor_value_info(o) for o in made])
            self.known.update(zip(made, judge.run(model, inputs, threads=1)))
            self.pending = []
        return self.known[name]

    def shape(self, q):
        return self.value(q.name if isinstance(q, Quantised) else q).shape

    def measured(self, build):
        """The numbers of a float form that does not become a part of the graph."""
        self.value(self.nodes[-1].output[0] if self.nodes else next(iter(self.inputs)))  # nothing else is pending
        before, dequantised = len(self.nodes), dict(self.dequantised)
        array = self.value(build())
        del self.nodes[before:]
        self.dequantised = dequantised
        return array

    # --- grids
    def kind(self):
        return self.one_of(["uint8"] * 9 + ["int8"] * 9 + ["uint16", "int16"])

    def grid(self, array, kind):
        """A scale and a zero point for numbers like these."""
        least, most = TYPES[kind]
        low, high = min(0.0, float(array.min(initial=0))), max(0.0, float(array.max(initial=0)))
        if self.chance(0.15):  # clips the largest, as percentiles and entropy do
            part = self.r.uniform(0.5, 0.95)
            low, high = low * part, high * part
        if high - low < 1e-6:
            return np.float32(2.0 ** -self.whole(2, 6)), 0 if self.chance(0.5) else self.whole(least, most)
        which = self.r.random()
        if which < 0.35:  # symmetric: zero in the middle
            zero = (least + most + 1) // 2
            scale = max(-low, high) / (most - zero)
        elif which < 0.4 and high > 0:  # nothing below zero
            zero, scale = least, high / (most - least)
        elif which < 0.43 and low < 0:  # nothing above zero
            zero, scale = most, -low / (most - least)
        else:
            scale = (high - low) / (most - least)
            zero = int(np.clip(np.round(least - low / scale), least, most))
        if self.chance(0.15):  # halves between two steps are then exact, and go to the even one
            scale = 2.0 ** np.ceil(np.log2(scale))
        return np.float32(scale), zero

    def on_grid(self, name, kind, scale, zero):
        return Quantised(name, kind, scale, zero, self.constant(scale), self.constant(zero, kind))

    def quantise(self, name, like=None, kind=None):
        """The float value, behind a QuantizeLinear on the grid of `like` or one of its own."""
        if like is None:
            kind = kind or self.kind()
            like = self.on_grid(None, kind, *self.grid(self.value(name), kind))
        if like.zero == 0 and self.chance(0.3):  # without a zero point
            typed = {} if like.kind == "uint8" else {"output_dtype": getattr(TensorProto, like.kind.upper())}
            return like.renamed(self.add("QuantizeLinear", [name, like.scale_name], **typed))
        return like.renamed(self.add("QuantizeLinear", [name, *like.parameters]))

    def dequantise(self, q):
        """One DequantizeLinear for all readers, or another one."""
        if q.name not in self.dequantised or self.chance(0.5):
            parameters = [q.scale_name] if q.zero == 0 and self.chance(0.3) else q.parameters
            name = self.dequantised[q.name] = self.add("DequantizeLinear", [q.name, *parameters])
            self.steps[name] = float(np.max(q.scale))
        return self.dequantised[q.name]

    def finish(self, outputs):
        """The model, with what its outputs need, and the inputs of it."""
        infos = [helper.make_tensor_value_info(o, helper.np_dtype_to_tensor_dtype(self.value(o).dtype), self.value(o).shape) for o in outputs]
        nodes, needed = [], set(outputs)
        for node in reversed(self.nodes):
            if needed & set(node.output):
                nodes.insert(0, node)
                needed |= set(node.input)
        inputs = {n: a for n, a in self.inputs.items() if n in needed}
        return make_model(nodes, {n: t for n, t in self.constants.items() if n in needed}, inputs, infos), inputs


def make_model(nodes, constants, inputs, outputs):
    given = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in inputs.items()]
    graph = helper.make_graph(nodes, "quantised", given, outputs, list(constants.values()))
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
