# SPDX-License-Identifier: Apache-2.0
"""Writes small ONNX models with nothing but the standard library.

A protobuf message is a sequence of (field number, wire type, value); the field numbers are those of onnx.proto. The
network takes images of any size: Conv, Relu, Conv + residual Add, Relu, GlobalAveragePool, Flatten, Gemm.
"""
import struct


def varint(value):
    out = bytearray()
    while True:
        byte = value & 0x7F
        value >>= 7
        out.append(byte | (0x80 if value else 0))
        if not value:
            return bytes(out)


def field(number, value):
    """One field: bytes and str are length-delimited, int is a varint."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def tensor(name, dims, floats):
    data = struct.pack(f"<{len(floats)}f", *floats)
    return b"".join(field(1, d) for d in dims) + field(2, 1) + field(8, name) + field(9, data)


def attribute(name, value):
    if isinstance(value, list):
        return field(1, name) + b"".join(field(8, v) for v in value) + field(20, 7)
    if isinstance(value, str):
        return field(1, name) + field(4, value) + field(20, 3)
    if isinstance(value, float):
        return field(1, name) + varint(2 << 3 | 5) + struct.pack("<f", value) + field(20, 1)
    return field(1, name) + field(3, value) + field(20, 2)


def node(op, name, inputs, outputs, **attributes):
    body = b"".join(field(1, i) for i in inputs) + b"".join(field(2, o) for o in outputs) + field(3, name) + field(4, op)
    return body + b"".join(field(5, attribute(k, v)) for k, v in attributes.items())


def value_info(name, dims, element=1):
    """`element`: the number of the type in onnx.proto (1: float32, 7: int64)."""
    shape = b"".join(field(1, field(2, d) if isinstance(d, str) else field(1, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, element) + field(2, shape)))


def weights(name, dims, seed):
    count = 1
    for d in dims:
        count *= d
    state, values = seed, []
    for _ in range(count):
        state = state * 1103515245 + 12345 & 0x7FFFFFFF
        values.append((state / 0x7FFFFFFF - 0.5) * 0.4)
    return tensor(name, dims, values)


def outside(initializer, location, offset, length):
    """The same initializer with its data in another file."""
    data = initializer[-length:]
    entries = [("location", location), ("offset", str(offset)), ("length", str(length))]
    kept = initializer[: -length - len(field(9, data)) + length]
    return kept + b"".join(field(13, field(1, k) + field(2, v)) for k, v in entries) + field(14, 1), data


def write(path, batch="batch", size=224, input_name="input", external=None):
    """`batch`: a number, or a name for a dynamic dimension. `size`: a number; None: height and width are dynamic.
    `external`: a file beside the model that takes the convolutions' weights."""
    spatial = ["height", "width"] if size is None else [size, size]
    nodes = [
        node("Conv", "Conv_0", [input_name, "w0", "b0"], ["c0"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[4, 4]),
        node("Relu", "Relu_1", ["c0"], ["r0"]),
        node("Conv", "Conv_2", ["r0", "w1", "b1"], ["c1"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Add", "Add_3", ["c1", "r0"], ["a1"]),
        node("Relu", "Relu_4", ["a1"], ["r1"]),
        node("GlobalAveragePool", "GlobalAveragePool_5", ["r1"], ["g"]),
        node("Flatten", "Flatten_6", ["g"], ["f"], axis=1),
        node("Gemm", "Gemm_7", ["f", "w2", "b2"], ["output"], transB=1),
    ]
    initializers = [weights("w0", [8, 3, 3, 3], 1), weights("b0", [8], 2), weights("w1", [8, 8, 3, 3], 3),
                    weights("b1", [8], 4), weights("w2", [10, 8], 5), weights("b2", [10], 6)]
    if external:
        initializers[0], first = outside(initializers[0], external, 0, 8 * 3 * 9 * 4)
        initializers[2], second = outside(initializers[2], external, len(first), 8 * 8 * 9 * 4)
        path.with_name(external).write_bytes(first + second)
    graph = b"".join(field(1, n) for n in nodes) + field(2, "tiny") + b"".join(field(5, t) for t in initializers)
    graph += field(11, value_info(input_name, [batch, 3, *spatial])) + field(12, value_info("output", [batch, 10]))
    model = field(1, 8) + field(2, "lathe-tests") + field(3, "1.0") + field(7, graph) + field(8, field(2, 17))
    with open(path, "wb") as file:
        file.write(model)


def write_identity(path):
    """A network whose query takes next to no time: a copy of one number."""
    graph = field(1, node("Identity", "Identity_0", ["x"], ["y"])) + field(2, "identity")
    graph += field(11, value_info("x", [1])) + field(12, value_info("y", [1]))
    model = field(1, 8) + field(2, "lathe-tests") + field(3, "1.0") + field(7, graph) + field(8, field(2, 17))
    with open(path, "wb") as file:
        file.write(model)


def write_tile(path):
    """y = Tile(x, repeats): the size of a result is data."""
    graph = field(1, node("Tile", "Tile_0", ["x", "repeats"], ["y"])) + field(2, "tile")
    graph += field(11, value_info("x", [2, 3])) + field(11, value_info("repeats", [2], element=7))
    graph += field(12, value_info("y", ["rows", "columns"]))
    path.write_bytes(field(1, 8) + field(7, graph) + field(8, field(2, 17)))


def write_strings(path):
    """joined = StringConcat(a, b): two strings each."""
    graph = field(1, node("StringConcat", "StringConcat_0", ["a", "b"], ["joined"])) + field(2, "strings")
    graph += b"".join(field(number, value_info(name, [2], element=8)) for number, name in ((11, "a"), (11, "b"), (12, "joined")))
    path.write_bytes(field(1, 9) + field(7, graph) + field(8, field(2, 20)))


def write_custom(path):
    """The operators of examples/plugin: y = Swish(x) with beta 0.5, z = the elements of y above 0."""
    space = dict(plugin_version="1", plugin_namespace="example")
    graph = field(1, node("Swish", "Swish_0", ["x"], ["y"], beta=0.5, **space)) + field(1, node("Positive", "Positive_1", ["y"], ["z"], **space))
    graph += field(2, "custom") + field(11, value_info("x", ["batch", 3, 4])) + field(12, value_info("y", ["batch", 3, 4]))
    graph += field(12, value_info("z", ["count"]))
    path.write_bytes(field(1, 8) + field(7, graph) + field(8, field(2, 17)))


def write_chain(path, *nodes):
    """Nodes of one input and one output in a row, each (operator, attributes), on float32 of 1x4x6x6."""
    body = [node(op, f"{op}_{i}", [f"v{i}"], [f"v{i + 1}"], **attributes) for i, (op, attributes) in enumerate(nodes)]
    graph = b"".join(field(1, n) for n in body) + field(2, "chain")
    graph += field(11, value_info("v0", [1, 4, 6, 6])) + field(12, value_info(f"v{len(nodes)}", [1, 4, 6, 6]))
    path.write_bytes(field(1, 8) + field(7, graph) + field(8, field(2, 17)))
