# SPDX-License-Identifier: Apache-2.0
"""Classes that a program derives from: what an engine and its contexts tell it, and where they read and write."""


class IProfiler:
    """Derive from it: report_layer_time(layer_name, ms)."""

    def report_layer_time(self, layer_name, ms):
        raise NotImplementedError


class Profiler(IProfiler):
    """Prints the times."""

    def report_layer_time(self, layer_name, ms):
        print(f"{layer_name}: {ms}ms")


class IOutputAllocator:
    """Derive from it: reallocate_output(tensor_name, memory, size, alignment) -> address, or reallocate_output_async with a stream, and
    notify_shape(tensor_name, shape)."""

    def reallocate_output_async(self, tensor_name, memory, size, alignment, stream):
        return self.reallocate_output(tensor_name, memory, size, alignment)


class IDebugListener:
    """Derive from it: process_debug_tensor(addr, location, type, shape, name, stream) -> bool. The address is of the host."""


class IStreamReader:
    """Derive from it: read(count) -> bytes, none at the end."""


class IStreamReaderV2:
    """Derive from it: read(count, stream) -> bytes, none at the end, and seek(offset, where)."""


class IStreamWriter:
    """Derive from it: write(bytes) -> how many were taken."""
