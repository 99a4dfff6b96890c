# SPDX-License-Identifier: Apache-2.0
"""The data of initializers in a model's bytes, without a library for ONNX. A protobuf message is a sequence of (field number, wire type,
value); the numbers are those of onnx.proto."""
_GRAPH, _INITIALIZER = 7, 5
_DIMS, _TYPE, _NAME, _RAW_DATA, _DOC = 1, 2, 8, 9, 12


def _varint(data, at):
    value, shift = 0, 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _encoded(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _fields(data):
    """(number, the field's bytes, its value's bytes) of each field. Raises ValueError for what is no message."""
    at = 0
    try:
        while at < len(data):
            begin = at
            key, at = _varint(data, at)
            number, wire = key >> 3, key & 7
            if wire == 2:
                length, at = _varint(data, at)
            elif wire == 0:
                length = _varint(data, at)[1] - at
            else:
                length = {1: 8, 5: 4}[wire]
            if at + length > len(data):
                raise IndexError
            yield number, data[begin:at + length], data[at:at + length]
            at += length
    except (IndexError, KeyError):
        raise ValueError("these bytes are no ONNX model") from None


def _field(number, value):
    return _encoded(number << 3 | 2) + _encoded(len(value)) + value


def with_weights(model, weights):
    """The model's bytes with other data for initializers: bytes by name. Also those that are in the model without any data."""
    left = dict(weights)

    def tensor(data):
        parts = list(_fields(data))
        name = next((bytes(value).decode() for number, _, value in parts if number == _NAME), "")
        if name not in left:
            return data
        kept = [whole for number, whole, _ in parts if number in (_DIMS, _TYPE, _NAME, _DOC)]
        return b"".join(kept) + _field(_RAW_DATA, bytes(left.pop(name)))

    def graph(data):
        return b"".join(_field(n, tensor(value)) if n == _INITIALIZER else bytes(whole) for n, whole, value in _fields(data))

    made = b"".join(_field(n, graph(value)) if n == _GRAPH else bytes(whole) for n, whole, value in _fields(memoryview(model)))
    if left:
        raise ValueError(f"the model has no initializer '{next(iter(left))}'")
    return made
