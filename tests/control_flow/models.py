# SPDX-License-Identifier: Apache-2.0
"""What small models with bodies are made of, and inputs for them."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL, FLOAT16 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.FLOAT16
KINDS = {FLOAT: np.float32, INT64: np.int64, BOOL: np.bool_, FLOAT16: np.float16}
RANDOM = np.random.default_rng(7)


def value(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def weights(name, *shape, kind=np.float32):
    return numpy_helper.from_array(RANDOM.uniform(-1, 1, shape).astype(kind), name)


def constant(name, array):
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(array)))


def model(nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def body(nodes, inputs, outputs, initializers=()):
    return helper.make_graph(nodes, "body", inputs, outputs, list(initializers))


def rows(n, *rest, kind=np.float32):
    return RANDOM.uniform(-1, 1, (n, *rest)).astype(kind)


def yes_no(flag):
    return np.array(flag)
