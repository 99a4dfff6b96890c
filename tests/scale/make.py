# SPDX-License-Identifier: Apache-2.0
"""Models of any number of nodes: chains, and wide graphs. Each function gives nodes, initializers, and the shape of the input x; the result is y."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

SHAPE = [8, 16]


def chain(count, operators):
    """operators in turns; one is a function of the input's and the output's name and the number of the node."""
    return [operators[i % len(operators)]("x" if i == 0 else f"v{i - 1}", "y" if i == count - 1 else f"v{i}", i) for i in range(count)]


def node(operator, *constants, **attributes):
    return lambda before, after, number: helper.make_node(operator, [before, *constants], [after], name=f"{operator}_{number}", **attributes)


def constants(**arrays):
    return [numpy_helper.from_array(a.astype(np.float32), n) for n, a in arrays.items()]


def pointwise(count):
    return chain(count, [node("Add", "c"), node("Relu")]), constants(c=np.full((1,), 0.001))


def softmax(count):
    return chain(count, [node("Softmax", axis=-1)]), []


def products(count):
    weights = np.eye(16) * 0.99
    return chain(count, [node("MatMul", "w"), node("Add", "c"), node("Relu")]), constants(w=weights, c=np.full((16,), 0.001))


def concat(count):
    """As many branches as there are nodes, joined at the end: wide."""
    nodes = [node("Sigmoid")("x", f"v{i}", i) for i in range(count - 1)]
    return nodes + [helper.make_node("Concat", [f"v{i}" for i in range(count - 1)], ["y"], name="join", axis=0)], []


def unsorted(count):
    """A chain in reverse order, and a node that reads all of it."""
    nodes = [node("Neg")("x" if i == 0 else f"v{i - 1}", f"v{i}", i) for i in range(count - 1)]
    return [helper.make_node("Sum", [f"v{i}" for i in range(count - 1)], ["y"], name="sum")] + nodes[::-1], []


KINDS = {f.__name__: f for f in (pointwise, softmax, products, concat, unsorted)}


def write(kind, count, path):
    nodes, weights = KINDS[kind](count)
    graph = helper.make_graph(nodes, kind, [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
