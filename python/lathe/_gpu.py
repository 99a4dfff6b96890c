# SPDX-License-Identifier: Apache-2.0
"""Calls of engines on GPUs. Arrays of a GPU are read and written where they lie, and the run is put on the current stream of the library
that they come from: a call returns before the results are there, as the library's own operators do. Arrays of the host are copied to the
GPU and back."""
import functools
import math
import sys

from ._core import ExecutionContext
from ._errors import InputError


class Calls:
    """The contexts that calls of one engine use: one for each call in flight."""

    def __init__(self, inputs, outputs):
        self._outputs = outputs
        for tensor in (*inputs, *outputs):
            if tensor.format in ("hwc8", "hwc16"):
                raise InputError("its channels are padded", where=f"tensor '{tensor.name}'", hint="bind its memory by address: ExecutionContext")
        # Everything of a tensor that a call looks at, as Python's own objects.
        self._input_facts = [(t.name, t.dtype) for t in inputs]
        self._output_facts = [(t.name, t.dtype, -1 in t.shape) for t in outputs]
        self._idle = []

    def __call__(self, engine, inputs, out, profiler):
        try:
            context = self._idle.pop()
        except IndexError:
            context = ExecutionContext(engine)
        try:
            library = _library_of(inputs, self._input_facts)
            if library is None:
                return self._with_copies(context, inputs, out, profiler)
            return self._in_place(context, library, inputs, out, profiler)
        finally:
            self._idle.append(context)

    def _in_place(self, context, library, inputs, out, profiler):
        first = inputs[0]
        alive = []
        for (name, dtype), value in zip(self._input_facts, inputs):
            value = library.contiguous(value)
            alive.append(value)
            _check_type(f"input '{name}'", dtype, library.dtype(value))
            context.bind_input_address(name, value.shape, library.address(value))
        results = {}
        for name, dtype, _ in self._output_facts:
            value = out.get(name)
            if value is None:
                value = library.empty(context.tensor_shape(name), dtype, first)
            elif not library.is_writable(value):
                raise InputError(f"it is no contiguous array of {library.name} on the GPU", where=f"out['{name}']")
            _check_type(f"out['{name}']", dtype, library.dtype(value))
            context.bind_output_address(name, library.address(value), library.nbytes(value))
            results[name] = value
        if profiler is None:
            context.enqueue_cuda(library.stream(first))
        else:
            library.synchronize(first)
            context.execute(profiler)
        for name, _, is_dynamic in self._output_facts:
            if is_dynamic and name not in out:
                results[name] = _prefix(results[name], context.tensor_shape(name))
        return results if len(results) != 1 else results[self._output_facts[0][0]]

    def _with_copies(self, context, inputs, out, profiler):
        if out or profiler is not None:
            raise InputError("the engine runs on a GPU and the inputs are in memory of the host", where="out or a profile",
                             hint="give it arrays of the GPU: x.cuda() in torch")
        results = context.run(inputs)
        return results[0] if len(results) == 1 else {t.name: value for t, value in zip(self._outputs, results)}


def _check_type(where, expected, given):
    if given != expected:
        raise InputError("it has another type", where=where, why=f"it was given {given} instead of {expected}")


def _prefix(value, shape):
    """What a run found of a result whose memory has room for the largest one."""
    return value if tuple(value.shape) == shape else value.reshape(-1)[:math.prod(shape)].reshape(shape)


def _library_of(inputs, facts):
    """Whose arrays the inputs are; None: they are in memory of the host."""
    libraries = {_library_of_one(value) for value in inputs}
    if len(libraries) == 1:
        return libraries.pop()
    where = ", ".join(f"'{name}' in memory of {getattr(_library_of_one(v), 'name', 'the host')}" for (name, _), v in zip(facts, inputs))
    raise InputError("the inputs are not all arrays of one library on the GPU", where=where, hint="copy them to the GPU: x.cuda() in torch")


def _library_of_one(value):
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _adapter(_Torch, torch) if value.is_cuda else None
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(value, cupy.ndarray):
        return _adapter(_CuPy, cupy)
    if hasattr(value, "__cuda_array_interface__"):
        raise InputError(f"it is an array of {type(value).__module__}", where="a call of an engine on a GPU",
                         hint="torch.as_tensor(x, device='cuda') and cupy.asarray(x) share its memory")
    return None


@functools.cache
def _adapter(cls, library):
    return cls(library)


class _Torch:
    name = "torch"

    def __init__(self, torch):
        self._torch = torch
        names = ("float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "bool")
        self._names = {getattr(torch, name): name for name in names}
        self._types = {name: dtype for dtype, name in self._names.items()}

    def contiguous(self, value):
        return value if value.is_contiguous() else value.contiguous()

    def dtype(self, value):
        return self._names.get(value.dtype, str(value.dtype))

    def address(self, value):
        return value.data_ptr()

    def nbytes(self, value):
        return value.nbytes

    def is_writable(self, value):
        return isinstance(value, self._torch.Tensor) and value.is_cuda and value.is_contiguous()

    def empty(self, shape, dtype, like):
        return self._torch.empty(shape, dtype=self._types[dtype], device=like.device)

    def stream(self, like):
        return self._torch.cuda.current_stream(like.device).cuda_stream

    def synchronize(self, like):
        self._torch.cuda.current_stream(like.device).synchronize()


class _CuPy:
    name = "CuPy"

    def __init__(self, cupy):
        self._cupy = cupy

    def contiguous(self, value):
        return self._cupy.ascontiguousarray(value)

    def dtype(self, value):
        return value.dtype.name

    def address(self, value):
        return value.data.ptr

    def nbytes(self, value):
        return value.nbytes

    def is_writable(self, value):
        return isinstance(value, self._cupy.ndarray) and value.flags.c_contiguous

    def empty(self, shape, dtype, like):
        return self._cupy.empty(shape, dtype)

    def stream(self, like):
        return self._cupy.cuda.get_current_stream().ptr

    def synchronize(self, like):
        self._cupy.cuda.get_current_stream().synchronize()
