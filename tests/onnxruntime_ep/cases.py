# SPDX-License-Identifier: Apache-2.0
"""Small models for the execution provider, each with the inputs of its runs and how many nodes each provider is to get."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, INT32, FLOAT16, BOOL, STRING = (TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.FLOAT16, TensorProto.BOOL,
                                              TensorProto.STRING)
MICROSOFT = "com.microsoft"
RANDOM = np.random.default_rng(27)


def value(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def weights(name, *shape, kind=np.float32):
    return numpy_helper.from_array(RANDOM.uniform(-1, 1, shape).astype(kind), name)


def numbers(name, *values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def rows(n, *rest, kind=np.float32):
    return RANDOM.uniform(-1, 1, (n, *rest)).astype(kind)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def model(nodes, inputs, outputs, initializers=(), ir=9, functions=()):
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1), helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("local", 1)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir, functions=functions)


def perceptron(kind=FLOAT):
    small = np.float16 if kind == FLOAT16 else np.float32
    return model([node("MatMul", "x w", "h"), node("Add", "h b", "s"), node("Relu", "s", "y")], [value("x", kind, ["n", 4])],
                 [value("y", kind, ["n", 3])], [weights("w", 4, 3, kind=small), weights("b", 3, kind=small)])


def hashed():
    """What nobody but ONNX Runtime computes, on one of two ways from the input to the output."""
    return model([node("Abs", "x", "a"), node("Cast", "a", "i", to=INT32), node("MurmurHash3", "i", "hash", domain=MICROSOFT, positive=0),
                  node("Cast", "hash", "f", to=FLOAT), node("Mul", "f scale", "m"), node("Sin", "a", "s"), node("Add", "m s", "y"),
                  node("Neg", "s", "z")],
                 [value("x", FLOAT, ["n", 4])], [value("y", FLOAT, ["n", 4]), value("z", FLOAT, ["n", 4])],
                 [numpy_helper.from_array(np.float32(1e-9), "scale")])


def branches():
    """Branches that capture an input, a weight of the graph and a computed value."""
    def body(nodes, output, *constants):
        return helper.make_graph(nodes, "body", [], [value(output, FLOAT, ["n", 5])], list(constants))
    yes = body([node("MatMul", "h w", "p"), node("MatMul", "p own", "yes")], "yes", weights("own", 5, 5))
    no = body([node("MatMul", "x w", "q"), node("Neg", "q", "no")], "no")
    return model([node("Tanh", "x", "h"), node("If", "c", "y", then_branch=yes, else_branch=no)],
                 [value("c", BOOL, []), value("x", FLOAT, ["n", 4])], [value("y", FLOAT, ["n", 5])], [weights("w", 4, 5)])


def function():
    """A function of the model's own."""
    twice = helper.make_function("local", "Twice", ["v"], ["r"], [node("Add", "v v", "r")], [helper.make_opsetid("", 17)])
    return model([node("Twice", "x", "t", domain="local"), node("Relu", "t", "y")], [value("x", FLOAT, ["n", 4])], [value("y", FLOAT, ["n", 4])],
                 functions=[twice])


def quantized():
    """Weights of 7 bits: without VNNI, ONNX Runtime's sums of two products saturate at 16."""
    scale, zero = numpy_helper.from_array(np.float32(0.02), "scale"), numpy_helper.from_array(np.uint8(128), "zero")
    kernel = numpy_helper.from_array(RANDOM.integers(-63, 64, (8, 3, 3, 3)).astype(np.int8), "kernel")
    small, none = numpy_helper.from_array(np.float32(0.008), "small"), numpy_helper.from_array(np.int8(0), "none")
    return model([node("QuantizeLinear", "x scale zero", "q"), node("DequantizeLinear", "q scale zero", "d"),
                  node("DequantizeLinear", "kernel small none", "w"), node("Conv", "d w", "c", pads=[1, 1, 1, 1]),
                  node("QuantizeLinear", "c scale zero", "cq"), node("DequantizeLinear", "cq scale zero", "y")],
                 [value("x", FLOAT, ["n", 3, 8, 8])], [value("y", FLOAT, ["n", 8, 8, 8])], [scale, zero, kernel, small, none])


def texts():
    """A graph with strings in it."""
    encoder = node("LabelEncoder", "label", "text", domain="ai.onnx.ml", keys_int64s=[0, 1, 2, 3], values_strings=["a", "b", "c", "d"])
    return model([node("MatMul", "x w", "p"), node("ArgMax", "p", "label", axis=1, keepdims=0), encoder], [value("x", FLOAT, ["n", 6])],
                 [value("text", STRING, ["n"]), value("p", FLOAT, ["n", 4])], [weights("w", 6, 4)])


# name: (model, inputs of its runs, nodes of each of Lathe's partitions as the model is written, nodes of others)
CASES = {
    "dynamic_batch": (perceptron(), [{"x": rows(n, 4)} for n in (3, 1, 8, 2, 100, 9)], [3], 0),
    "float16": (perceptron(FLOAT16), [{"x": rows(n, 4, kind=np.float16)} for n in (2, 5)], [3], 0),
    "empty": (perceptron(), [{"x": rows(n, 4)} for n in (0, 2, 0)], [3], 0),
    "several_outputs": (model([node("Relu", "x", "a"), node("Exp", "a", "b"), node("Split", "b", "c d", axis=1), node("TopK", "a k", "e f")],
                              [value("x", FLOAT, ["n", 4])],
                              [value("f", INT64, ["n", 2]), value("a", FLOAT, ["n", 4]), value("d", FLOAT, ["n", 2]), value("c", FLOAT, ["n", 2])],
                              [numbers("k", 2)]), [{"x": rows(n, 4)} for n in (1, 4)], [4], 0),
    "unsupported_beside": (hashed(), [{"x": 100 * rows(n, 4)} for n in (2, 6, 3)], [3, 4], 1),
    "int64": (model([node("Gather", "table i", "g"), node("ReduceSum", "g axis", "s", keepdims=0), node("Mul", "i three", "j"), node("Mod", "j five", "k")],
                    [value("i", INT64, ["n", "m"])], [value("s", FLOAT, ["n", "m"]), value("k", INT64, ["n", "m"])],
                    [weights("table", 10, 4), numbers("axis", 2), numbers("three", 3), numbers("five", 5)]),
              [{"i": RANDOM.integers(0, 10, (n, m))} for n, m in ((2, 3), (1, 7), (5, 1))], [4], 0),
    "found_by_the_run": (model([node("Relu", "x", "r"), node("NonZero", "r", "y"), node("ReduceMax", "r", "m", keepdims=0)],
                               [value("x", FLOAT, ["n", 4])], [value("y", INT64, [2, "found"]), value("m", FLOAT, [])]),
                         [{"x": x} for x in (rows(3, 4), -np.ones((2, 4), np.float32), rows(9, 4))], [3], 0),
    "shape_input": (model([node("Reshape", "x shape", "r"), node("Relu", "r", "y")], [value("x", FLOAT, ["n", 4]), value("shape", INT64, [2])],
                          [value("y", FLOAT, ["a", "b"])]),
                    [{"x": rows(6, 4), "shape": np.array(s)} for s in ([3, 8], [12, 2], [3, -1], [24, 1], [3, 8])], [2], 0),
    "one_longer": (model([node("Concat", "past x", "all", axis=0), node("Add", "all mask", "y")],
                         [value("past", FLOAT, ["p", 4]), value("x", FLOAT, [1, 4]), value("mask", FLOAT, ["q", 1])], [value("y", FLOAT, ["q", 4])]),
                   [{"past": rows(p, 4), "x": rows(1, 4), "mask": rows(p + 1, 1)} for p in (*range(1, 9), 40, 41)], [2], 0),
    "default_of_an_input": (model([node("Mul", "x factor", "y")], [value("x", FLOAT, ["n", 4]), value("factor", FLOAT, [])],
                                  [value("y", FLOAT, ["n", 4])], [numpy_helper.from_array(np.float32(3), "factor")]),
                            [{"x": rows(2, 4)}, {"x": rows(2, 4), "factor": np.array(5, np.float32)}], [1], 0),
    "branches": (branches(), [{"c": np.array(c), "x": rows(n, 4)} for c in (True, False) for n in (1, 3)], [2], 0),
    "function": (function(), [{"x": rows(2, 4)}], [2], 0),
    "quantized": (quantized(), [{"x": 2 * rows(n, 3, 8, 8)} for n in (1, 2)], [6], 0),
    "sequence": (model([node("SplitToSequence", "x", "parts", axis=1, keepdims=1), node("SequenceAt", "parts one", "p"), node("Neg", "p", "y")],
                       [value("x", FLOAT, ["n", 4])], [value("y", FLOAT, ["n", 1])], [numpy_helper.from_array(np.array(1, np.int64), "one")]),
                 [{"x": rows(3, 4)}], [3], 0),
    "texts": (texts(), [{"x": rows(n, 6)} for n in (1, 5)], [2], 1),
    "attributes": (model([node("LSTM", "x w r", "all h c", hidden_size=3, direction="bidirectional", clip=0.4,
                               activations=["Sigmoid", "Tanh", "Relu", "HardSigmoid", "Tanh", "Softsign"], activation_alpha=[0.3], activation_beta=[0.4]),
                          node("RNN", "x v u", "y", hidden_size=3)],
                         [value("x", FLOAT, ["t", "n", 4])],
                         [value("all", FLOAT, ["t", 2, "n", 3]), value("c", FLOAT, [2, "n", 3]), value("y", FLOAT, ["t", 1, "n", 3])],
                         [weights("w", 2, 12, 4), weights("r", 2, 12, 3), weights("v", 1, 3, 4), weights("u", 1, 3, 3)]),
                   [{"x": rows(t, n, 4)} for t, n in ((5, 2), (1, 1))], [2], 0),
}
