#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/models/small: tiny models in the style of several opsets, with an input and ONNX Runtime's output each.

Batch norms are not folded, and each model uses the forms of its opset (attributes that became inputs later). The tests load them directly.
usage: make_small.py        needs: onnx, onnxruntime, numpy
"""
import pathlib
import numpy as np, onnx, onnxruntime
from onnx import TensorProto, helper, numpy_helper

FOLDER = pathlib.Path(__file__).parent / "small"
rng = np.random.default_rng(1)


class Net:
    def __init__(self, name, opset, ir):
        self.name, self.opset, self.ir = name, opset, ir
        self.nodes, self.weights = [], []

    def constant(self, value, name=None):
        name = name or f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, op, *inputs, outputs=1, **attributes):
        outs = [f"{op.lower()}{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), outs, name=f"{op}_{len(self.nodes)}", **attributes))
        return outs[0] if outputs == 1 else outs

    def conv(self, x, cin, cout, k=3, **attributes):
        w = rng.standard_normal((cout, cin // attributes.get("group", 1), k, k)) * (2 / (cin * k * k)) ** 0.5
        return self.add("Conv", x, self.constant(w.astype(np.float32)), kernel_shape=[k, k], pads=[k // 2] * 4, **attributes)

    def batch_norm(self, x, channels):
        parts = [rng.uniform(0.5, 1.5, channels), rng.standard_normal(channels) * 0.1, rng.standard_normal(channels) * 0.1,
                 rng.uniform(0.5, 1.5, channels)]
        return self.add("BatchNormalization", x, *[self.constant(p.astype(np.float32)) for p in parts], epsilon=1e-3)

    def gemm(self, x, n, m):
        w = (rng.standard_normal((m, n)) * n ** -0.5).astype(np.float32)
        return self.add("Gemm", x, self.constant(w), self.constant(np.linspace(-1, 1, m).astype(np.float32)), transB=1)

    def save(self, output, out_dims, in_dims):
        self.nodes[-1].output[0] = "output"
        info = helper.make_tensor_value_info
        inputs = [info("input", TensorProto.FLOAT, ["batch", *in_dims])]
        if self.ir == 3:  # weights are inputs too
            inputs += [info(t.name, t.data_type, t.dims) for t in self.weights]
        graph = helper.make_graph(self.nodes, self.name, inputs, [info("output", TensorProto.FLOAT, ["batch", *out_dims])],
                                  self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=self.ir,
                                  producer_name="lathe-tests")
        onnx.checker.check_model(model)
        x = rng.standard_normal((2, *in_dims)).astype(np.float32)
        session = onnxruntime.InferenceSession(model.SerializeToString())
        y = session.run(None, {"input": x})[0]
        onnx.save(model, FOLDER / f"{self.name}.onnx")
        for kind, value in (("input", x), ("output", y)):
            (FOLDER / f"{self.name}.{kind}.pb").write_bytes(numpy_helper.from_array(value, kind).SerializeToString())


def block(net, x, cin, cout, **attributes):
    return net.add("Relu", net.batch_norm(net.conv(x, cin, cout, **attributes), cout))


def opset7():
    net = Net("opset7", 7, 3)
    x = block(net, "input", 3, 8, strides=[2, 2])
    x = net.add("Pad", x, mode="constant", pads=[0, 0, 1, 1, 0, 0, 1, 1], value=0.5)
    x = net.add("Upsample", x, mode="nearest", scales=[1.0, 1.0, 2.0, 2.0])
    x = net.add("Slice", x, axes=[2, 3], starts=[2, 2], ends=[-2, 18])
    x = net.add("MaxPool", block(net, x, 8, 8), kernel_shape=[2, 2], strides=[2, 2])
    x = net.add("Dropout", net.add("Clip", x, min=0.0, max=2.0), ratio=0.5)
    x = net.add("Reshape", x, net.constant(np.array([0, -1], np.int64)))
    net.save(net.add("Softmax", net.gemm(x, 512, 10), axis=1), [10], [3, 16, 16])


def opset9():
    net = Net("opset9", 9, 4)
    x = block(net, block(net, "input", 3, 8), 8, 8, group=8)
    x = net.add("Upsample", x, net.constant(np.array([1, 1, 2, 2], np.float32)), mode="nearest")
    shape = net.add("Shape", x)
    batch = net.add("Unsqueeze", net.add("Gather", shape, net.constant(np.int64(0)), axis=0), axes=[0])
    target = net.add("Concat", batch, net.constant(np.array([8, -1], np.int64)), axis=0)
    x = net.add("ReduceMean", net.add("Reshape", x, target), axes=[2], keepdims=0)
    net.save(net.add("LogSoftmax", net.gemm(x, 8, 10), axis=1), [10], [3, 8, 8])


def opset11():
    net = Net("opset11", 11, 6)
    x = block(net, "input", 3, 8)
    a, b = net.add("Split", x, outputs=2, axis=1, split=[3, 5])
    x = net.add("Concat", b, a, axis=1)
    empty = net.constant(np.zeros(0, np.float32))
    x = net.add("Resize", x, empty, net.constant(np.array([1, 1, 2, 2], np.float32)), mode="linear",
                coordinate_transformation_mode="align_corners")
    x = net.add("Pad", x, net.constant(np.array([0, 0, 0, 1, 0, 0, 1, 0], np.int64)), mode="reflect")
    x = net.add("Clip", x, net.constant(np.float32(0)), net.constant(np.float32(6)))
    x = net.add("AveragePool", x, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    x = net.add("Squeeze", net.add("GlobalAveragePool", x), axes=[2, 3])
    net.save(net.gemm(x, 8, 10), [10], [3, 8, 8])


def opset13():
    net = Net("opset13", 13, 7)
    x = block(net, "input", 3, 8, strides=[2, 2])
    y = block(net, block(net, x, 8, 16, k=1), 16, 8)
    x = net.add("Add", x, y)
    x = net.add("ReduceSum", x, net.constant(np.array([3], np.int64)), keepdims=1)
    x = net.add("Squeeze", x, net.constant(np.array([3], np.int64)))
    x = net.add("Softmax", x, axis=-1)
    x = net.add("Unsqueeze", x, net.constant(np.array([1], np.int64)))
    net.save(net.add("Flatten", x), [64], [3, 16, 16])


def tiny():
    """The model that most tests load: a residual network with a dynamic batch, about 70 kB."""
    net = Net("tiny", 17, 8)
    x = block(net, "input", 3, 16, strides=[2, 2])
    for _ in range(2):
        y = net.batch_norm(net.conv(block(net, x, 16, 16), 16, 16), 16)
        x = net.add("Relu", net.add("Add", x, y))
    x = net.add("Flatten", net.add("GlobalAveragePool", net.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])))
    x = net.add("LayerNormalization", x, net.constant(np.ones(16, np.float32)), net.constant(np.zeros(16, np.float32)))
    net.save(net.gemm(x, 16, 10), [10], [3, 32, 32])


def recurrent():
    """An LSTM in both directions with peepholes, a GRU from the end, an RNN with an activation that has a parameter."""
    net = Net("recurrent", 22, 10)
    def weights(*shape):
        return net.constant((rng.standard_normal(shape) * 0.5).astype(np.float32))
    x = net.add("Transpose", "input", perm=[1, 0, 2])
    x = net.add("LSTM", x, weights(2, 20, 4), weights(2, 20, 5), weights(2, 40), "", "", "", weights(2, 15), hidden_size=5,
                direction="bidirectional")
    x = net.add("Reshape", net.add("Transpose", x, perm=[0, 2, 1, 3]), net.constant(np.array([6, -1, 10], np.int64)))
    x = net.add("GRU", x, weights(1, 12, 10), weights(1, 12, 4), weights(1, 24), hidden_size=4, direction="reverse", linear_before_reset=1)
    x = net.add("Squeeze", x, net.constant(np.array([1], np.int64)))
    x = net.add("RNN", x, weights(1, 3, 4), weights(1, 3, 3), hidden_size=3, activations=["LeakyRelu"], activation_alpha=[0.3], outputs=2)[1]
    net.save(net.add("Squeeze", x, net.constant(np.array([0], np.int64))), [3], [6, 4])


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for make in (opset7, opset9, opset11, opset13, tiny, recurrent):
        make()
