# SPDX-License-Identifier: Apache-2.0
"""Allocators under TensorRT's names."""
import ctypes
import gc
import unittest

import numpy as np

import lathe.tensorrt as trt

from case import RNG, Case, HostBuffers, infer


class Counted(trt.IGpuAllocator):
    def __init__(self):
        trt.IGpuAllocator.__init__(self)
        self.live, self.calls, self.limit = {}, 0, 1 << 40

    def allocate(self, size, alignment, flags):
        if size > self.limit:
            return None
        memory = (ctypes.c_byte * (size + alignment))()
        address = -(-ctypes.addressof(memory) // alignment) * alignment
        self.live[address], self.calls = memory, self.calls + 1
        return address

    def deallocate(self, memory):
        del self.live[memory]
        return True


class OnStreams(trt.IGpuAsyncAllocator):
    def __init__(self):
        trt.IGpuAsyncAllocator.__init__(self)
        self.counted, self.streams = Counted(), []

    def allocate_async(self, size, alignment, flags, stream):
        self.streams.append(stream)
        return self.counted.allocate(size, alignment, flags)

    def deallocate_async(self, memory, stream):
        return self.counted.deallocate(memory)


class Memory(Case):
    def setUp(self):
        super().setUp()
        first = self.network.add_softmax(self.input(-1, 64))
        first.axes = 2
        turned = self.network.add_shuffle(first.get_output(0))
        turned.first_transpose, turned.reshape_dims = trt.Permutation([1, 0]), trt.Dims([-1, 64])
        product = self.network.add_matrix_multiply(turned.get_output(0), trt.MatrixOperation.NONE,
                                                   self.constant(np.arange(4096).reshape(64, 64) % 7 - 3), trt.MatrixOperation.NONE)
        last = self.network.add_softmax(product.get_output(0))
        last.axes = 2
        last.get_output(0).name = "y"
        self.network.mark_output(last.get_output(0))
        profile = self.builder.create_optimization_profile()
        profile.set_shape("x", (1, 64), (2, 64), (8, 64))
        self.config.add_optimization_profile(profile)
        self.x = RNG.random((2, 64), np.float32)

    def test_builds(self):
        self.builder.gpu_allocator = Counted()
        self.config.builder_optimization_level = 1
        self.assertIsNotNone(self.builder.build_serialized_network(self.network, self.config), self.logger.errors())
        self.assertGreater(self.builder.gpu_allocator.calls, 0)
        gc.collect()
        self.assertEqual(self.builder.gpu_allocator.live, {})

    def test_limits_of_builds(self):
        self.config.builder_optimization_level = 1
        self.config.set_memory_pool_limit(trt.MemoryPoolType.TACTIC_DRAM, 1000)
        self.assertIsNone(self.builder.build_serialized_network(self.network, self.config))
        self.assertIn("could be prepared", self.logger.errors()[-1])
        self.config.set_memory_pool_limit(trt.MemoryPoolType.TACTIC_DRAM, 1 << 30)
        self.assertIsNotNone(self.builder.build_serialized_network(self.network, self.config), self.logger.errors())

    def test_runtimes(self):
        plan = self.builder.build_serialized_network(self.network, self.config)
        expected = infer(trt.Runtime(self.logger, threads=1).deserialize_cuda_engine(plan), x=self.x)["y"]
        runtime = trt.Runtime(self.logger, threads=1)
        runtime.gpu_allocator = Counted()
        engine = runtime.deserialize_cuda_engine(plan)
        weights = runtime.gpu_allocator.calls
        self.assertGreater(weights, 0)
        np.testing.assert_array_equal(infer(engine, x=self.x)["y"], expected)
        self.assertGreater(runtime.gpu_allocator.calls, weights)

    def test_contexts(self):
        engine = self.engine()
        expected = infer(engine, x=self.x)["y"]
        for allocator, counted in ((a := Counted(), a), (b := OnStreams(), b.counted)):
            context = engine.create_execution_context(trt.ExecutionContextAllocationStrategy.USER_MANAGED)
            context.temporary_allocator = allocator
            buffers = HostBuffers(engine, context, {"x": self.x})
            self.assertEqual(counted.calls, 0)
            for runs in (1, 2):
                self.assertTrue(context.execute_async_v3(0), self.logger.errors())
                self.assertEqual((counted.calls, counted.live), (runs, {}))
            np.testing.assert_array_equal(buffers.arrays["y"], expected)
            counted.limit = 0
            self.assertFalse(context.execute_async_v3(0))
            self.assertIn("for the activations of a run", self.logger.errors()[-1])


if __name__ == "__main__":
    unittest.main(argv=["tensorrt_memory"], verbosity=1)
