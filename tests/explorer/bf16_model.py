# SPDX-License-Identifier: Apache-2.0
"""A float ONNX model with the same nodes in BF16; its inputs and outputs stay as they are, behind casts."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def narrow(tensor):
    """To the nearest BF16, ties to even."""
    if tensor.data_type != TensorProto.FLOAT:
        return
    bits = numpy_helper.to_array(tensor).astype(np.float32).ravel().view(np.uint32)
    tensor.data_type = TensorProto.BFLOAT16
    tensor.ClearField("float_data")
    tensor.raw_data = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16).tobytes()


def rename(names, old, new):
    for i, name in enumerate(names):
        if name == old:
            names[i] = new


def narrow_attributes(node):
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.TENSOR:
            narrow(attribute.t)
        if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
            attribute.i = TensorProto.BFLOAT16


def write_bf16(source, target):
    model = onnx.load(source)
    graph = model.graph
    for tensor in graph.initializer:
        narrow(tensor)
    for node in graph.node:
        narrow_attributes(node)
    del graph.value_info[:]
    constants = {tensor.name for tensor in graph.initializer}
    first, last = [], []
    for value, casts, is_input in [(v, first, True) for v in graph.input if v.name not in constants] + [(v, last, False) for v in graph.output]:
        if value.type.tensor_type.elem_type != TensorProto.FLOAT:
            continue
        inner = f"{value.name}_bf16"
        for node in graph.node:
            rename(node.input, value.name, inner)
            rename(node.output, value.name, inner)
        ends, to = ((value.name, inner), TensorProto.BFLOAT16) if is_input else ((inner, value.name), TensorProto.FLOAT)
        casts.append(helper.make_node("Cast", [ends[0]], [ends[1]], name=f"cast_{value.name}", to=to))
    nodes = [*first, *graph.node, *last]
    del graph.node[:]
    graph.node.extend(nodes)
    onnx.save(model, target)
