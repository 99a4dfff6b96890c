# SPDX-License-Identifier: Apache-2.0
"""Allocators under TensorRT's names. For engines of the CPU, addresses are those of host memory."""


class IGpuAllocator:
    """Derive from it: allocate(size, alignment, flags) -> address or None, and deallocate(memory) -> bool."""

    def allocate_async(self, size, alignment, flags, stream):
        return self.allocate(size, alignment, flags)

    def deallocate_async(self, memory, stream):
        return self.deallocate(memory)

    def reallocate(self, address, alignment, new_size):
        """Never called: memory is taken in the size that it keeps."""
        return None


class IGpuAsyncAllocator(IGpuAllocator):
    """Derive from it: allocate_async(size, alignment, flags, stream) -> address or None, and deallocate_async(memory, stream) -> bool."""

    def allocate(self, size, alignment, flags):
        return self.allocate_async(size, alignment, flags, 0)

    def deallocate(self, memory):
        return self.deallocate_async(memory, 0)


class _Asked:
    """What Lathe calls."""

    def __init__(self, allocator):
        self._allocator = allocator

    def allocate(self, size, alignment, stream):
        if stream:
            return self._allocator.allocate_async(size, alignment, 0, stream)
        return self._allocator.allocate(size, alignment, 0)

    def deallocate(self, address, stream):
        if stream:
            self._allocator.deallocate_async(address, stream)
        else:
            self._allocator.deallocate(address)


def asked(allocator):
    return None if allocator is None else _Asked(allocator)
