# SPDX-License-Identifier: Apache-2.0
"""Requests as arrays and arrays as responses, in KServe's types. What does not fit the model is InvalidInput: 400 and INVALID_ARGUMENT.

KServe reads the binary form of HTTP requests into Python lists, number by number, and takes a truncated one for its own error. read_binary
makes arrays over the body's bytes instead, and checks every length.
"""
import uuid

import numpy as np
import orjson
from kserve import InferInput, InferOutput, InferRequest, InferResponse
from kserve.errors import InvalidInput
from kserve.protocol.infer_type import RequestedOutput
from kserve.utils.numpy_codec import to_np_dtype

from ._models import DATATYPES

_NOT_SERVED = ("shared_memory_region", "classification")  # Triton's extensions: they would change what the answer means.


def inputs_of(request, model):
    """A dict of arrays, each of the model's type and inside of its range of shapes."""
    given = {}
    for tensor in request.inputs:
        if tensor.name in given:
            raise InvalidInput(f"input '{tensor.name}' was given twice")
        _check_parameters(tensor)
        given[tensor.name] = tensor
    wanted = {t.name: t for t in model.inputs}
    for name in given.keys() - wanted.keys():
        raise InvalidInput(f"model '{model.name}' has no input '{name}': its inputs are {', '.join(wanted)}")
    for name in wanted.keys() - given.keys():
        raise InvalidInput(f"input '{name}' was not given")
    return {name: _array(given[name], info, *model.ranges[name]) for name, info in wanted.items()}


def outputs_wanted(request, model):
    """For each output of the answer whether it is binary."""
    default = bool(request.use_binary_outputs)
    if not request.request_outputs:
        return {t.name: default for t in model.outputs}
    wanted = {}
    for output in request.request_outputs:
        if output.name not in {t.name for t in model.outputs}:
            raise InvalidInput(f"model '{model.name}' has no output '{output.name}': its outputs are "
                               f"{', '.join(t.name for t in model.outputs)}")
        _check_parameters(output)
        wanted[output.name] = default if output.binary_data is None else bool(output.binary_data)
    return wanted


def response_of(request, model, wanted, arrays):
    types = {t.name: DATATYPES[t.dtype] for t in model.outputs}
    outputs = []
    for name in wanted:
        output = InferOutput(name, list(arrays[name].shape), types[name], arrays[name])
        if request.from_grpc:
            output.set_data_from_numpy(arrays[name])  # KServe asks the other form for its truth value.
        outputs.append(output)
    return InferResponse(response_id=request.id or str(uuid.uuid4()), model_name=model.name, infer_outputs=outputs,
                         from_grpc=request.from_grpc, use_binary_outputs=all(wanted.values()),
                         requested_outputs=[RequestedOutput(name, {"binary_data": binary}) for name, binary in wanted.items()])


def read_binary(body, header, model_name):
    """A request of HTTP's binary form: JSON of `header` bytes, then the tensors one behind the other. Without a header all is JSON."""
    if header is None:
        header = str(len(body))
    if not header.isdigit() or int(header) > len(body):
        raise InvalidInput(f"the header Inference-Header-Content-Length is {header}: the length of the JSON part was expected, at most "
                           f"{len(body)} bytes")
    try:
        described = orjson.loads(body[:int(header)])
    except orjson.JSONDecodeError as error:
        raise InvalidInput(f"the JSON part cannot be read: {error}") from None
    if not isinstance(described, dict):
        raise InvalidInput("the JSON part is no object")
    if not isinstance(described.get("id") or "", str) or not isinstance(described.get("parameters") or {}, dict):
        raise InvalidInput("'id' is no text, or 'parameters' is no object")
    inputs, start = [], int(header)
    for entry in _objects(described, "inputs"):
        tensor = InferInput(_field(entry, "name", str), _field(entry, "shape", list), _field(entry, "datatype", str),
                            parameters=entry.get("parameters"))
        _check_shape(tensor)
        if "data" in entry:
            tensor.data = _field(entry, "data", list)
        else:
            tensor.data, start = _slice(tensor, body, start)
        inputs.append(tensor)
    if start != len(body):
        raise InvalidInput(f"{len(body) - start} bytes are left behind the last input")
    outputs = [RequestedOutput(_field(o, "name", str), o.get("parameters")) for o in _objects(described, "outputs")]
    return InferRequest(model_name=model_name, request_id=described.get("id"), parameters=described.get("parameters"), infer_inputs=inputs,
                        request_outputs=outputs or None)


def _objects(described, key):
    entries = described.get(key) or []
    if not isinstance(entries, list) or not all(isinstance(e, dict) and isinstance(e.get("parameters") or {}, dict) for e in entries):
        raise InvalidInput(f"'{key}' is no list of objects")
    return entries


def _field(entry, key, kind):
    if not isinstance(entry.get(key), kind):
        raise InvalidInput(f"'{key}' of a tensor is {entry.get(key)!r:.60}")
    return entry[key]


def _slice(tensor, body, start):
    size = (tensor.parameters or {}).get("binary_data_size")
    dtype = to_np_dtype(tensor.datatype)
    if dtype in (None, np.object_):
        raise InvalidInput(f"input '{tensor.name}' has the type {tensor.datatype}, which no tensor has")
    expected = _elements(tensor.shape) * np.dtype(dtype).itemsize
    if size != expected:
        raise InvalidInput(f"input '{tensor.name}': {tensor.datatype} of shape {tensor.shape} has {expected} bytes, and binary_data_size is {size}")
    if start + size > len(body):
        raise InvalidInput(f"input '{tensor.name}' has {size} bytes, of which {len(body) - start} are there")
    return np.frombuffer(body, dtype, _elements(tensor.shape), start).reshape(tensor.shape), start + size


def _elements(shape):
    count = 1
    for extent in shape:
        count *= extent  # Python's integers do not overflow.
    return count


def _check_shape(tensor):
    if any(not isinstance(d, int) or isinstance(d, bool) or d < 0 for d in tensor.shape):
        raise InvalidInput(f"input '{tensor.name}' has the shape {tensor.shape!r:.200}")


def _check_parameters(tensor):
    for key in _NOT_SERVED:
        if tensor.parameters and key in tensor.parameters:
            raise InvalidInput(f"tensor '{tensor.name}': {key} is not served")


def _array(tensor, info, low, high):
    where = f"input '{tensor.name}'"
    if tensor.datatype != DATATYPES[info.dtype]:
        raise InvalidInput(f"{where} is {tensor.datatype}; the model takes {DATATYPES[info.dtype]}")
    _check_shape(tensor)
    if len(tensor.shape) != len(low) or any(not a <= d <= b for a, d, b in zip(low, tensor.shape, high)):
        fits = " x ".join(f"{a}" if a == b else f"{a}..{b}" for a, b in zip(low, high))
        raise InvalidInput(f"{where} has the shape {tensor.shape}; the model takes {fits or 'a scalar'}")
    try:
        if isinstance(tensor.data, np.ndarray):
            array = tensor.data
        else:
            array = _of_numbers(tensor, info.dtype) if tensor.data else tensor.as_numpy()
        array = np.require(array.reshape(tensor.shape), requirements=["C", "A"])
        return array.view(np.uint8) != 0 if info.dtype == "bool" else array
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidInput(f"{where}: its data are no {tensor.datatype} of shape {tensor.shape}: {error}") from None


def _of_numbers(tensor, dtype):
    """Of JSON or of gRPC's typed contents. 1.5 is no integer, and 300 no uint8."""
    numbers = np.asarray(tensor.data)
    if numbers.dtype.kind not in ("b" if dtype == "bool" else "iu" if "int" in dtype else "iuf"):
        raise ValueError(f"they are {numbers.dtype}")
    made = numbers.astype(dtype)
    if "int" in dtype and not np.array_equal(made, numbers):
        raise OverflowError("some are out of range")
    return made
