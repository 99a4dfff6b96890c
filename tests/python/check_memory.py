#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Allocators, timing caches and refits of lathe. Run by run.py in the environment where the wheel is installed."""
import ctypes
import gc
import threading
import unittest

import numpy as np

import lathe

WEIGHTS = np.arange(64 * 64, dtype=np.float32).reshape(64, 64) % 7 - 3
X = np.random.default_rng(3).random((2, 64), np.float32)


def network(weights=WEIGHTS):
    """Softmaxes with a Transpose between them, whose results lie in memory, and a product."""
    net = lathe.NetworkBuilder("test")
    x = net.input("x", "float32", (-1, 64), ["rows", "64"])
    a = net.softmax(net.transpose(net.softmax(x), [1, 0]))
    net.output(net.softmax(net.matrix_multiply(net.reshape(a, [-1, 64]), net.constant(weights, name="w"))), "y")
    return net.finish()


def settings(level=0):
    config = lathe.BuilderConfig()
    config.optimization_level = level
    config.add_profile(lathe.OptimizationProfile().set_shape("x", (1, 64), (2, 64), (8, 64)))
    return config


class Counted:
    """Memory of the host, counted."""

    def __init__(self):
        self.live, self.calls, self.limit, self.lock = {}, 0, 1 << 40, threading.Lock()

    def allocate(self, size, alignment, stream):
        with self.lock:
            assert stream == 0
            if size > self.limit:
                return None
            memory = (ctypes.c_byte * (size + alignment))()
            address = -(-ctypes.addressof(memory) // alignment) * alignment
            self.live[address] = memory
            self.calls += 1
            return address

    def deallocate(self, address, stream):
        with self.lock:
            del self.live[address]


class Memory(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        engine = lathe.Builder(threads=1).build(network(), settings())
        cls.plan, cls.expected = engine.serialize(), engine(X)

    def test_allocators_of_python(self):
        memory = Counted()
        engine = lathe.Runtime(threads=2, allocator=memory).load_bytes(self.plan)
        self.assertGreater(len(memory.live), 0)  # packed weights
        np.testing.assert_array_equal(engine(X), self.expected)
        context = lathe.ExecutionContext(engine)
        context.set_allocator(memory)
        before = memory.calls
        np.testing.assert_array_equal(context.run([X])[0], self.expected)
        self.assertGreater(memory.calls, before)
        memory.limit = 0
        with self.assertRaisesRegex(lathe.DeviceError, "has no memory") as caught:
            context.run([X])
        self.assertIs(caught.exception.code, lathe.ErrorCode.FAILED_ALLOCATION)
        context.set_allocator(None)
        context = engine = None
        gc.collect()
        self.assertEqual(memory.live, {})
        with self.assertRaisesRegex(lathe.InputError, "it is no allocator"):
            lathe.Runtime(allocator=5)

    def test_builds(self):
        memory = Counted()
        engine = lathe.Builder(threads=1, allocator=memory).build(network(), settings(1))
        self.assertGreater(memory.calls, 0)
        np.testing.assert_allclose(engine(X), self.expected, rtol=1e-5)

    def test_pools(self):
        memory = Counted()
        pool = lathe.MemoryPool(memory)
        engine = lathe.Runtime(threads=1).load_bytes(self.plan)
        for _ in range(3):
            context = lathe.ExecutionContext(engine)
            context.set_allocator(pool)
            np.testing.assert_array_equal(context.run([X])[0], self.expected)
        self.assertEqual((memory.calls, pool.peak_bytes, pool.used_bytes), (1, context.memory_bytes, 0))
        self.assertEqual(pool.trim(), context.memory_bytes)
        self.assertEqual((pool.kept_bytes, memory.live), (0, {}))
        small = lathe.MemoryPool(lathe.device_allocator(), limit_bytes=100)
        address = small.allocate(80)
        self.assertNotEqual(address, 0)
        self.assertEqual(small.allocate(80), 0)
        small.deallocate(address)
        self.assertEqual(small.kept_bytes, 80)


class Builds(unittest.TestCase):
    def test_tell_how_they_were_made(self):
        config = settings()
        config.disabled_passes = ["fuse_pointwise"]
        config.workspace_limit_bytes = 5000
        info = lathe.Builder(threads=1).build(network(), config).build_info
        self.assertEqual((info["settings"], info["timed"]), ("level 0, fp32, workspace 5000 bytes, without pass fuse_pointwise", False))
        self.assertIn("fuse_pointwise", [p["name"] for p in lathe.optimizer_passes()])

    def test_caches_are_edited(self):
        config, builder = settings(3), lathe.Builder(threads=1)
        builder.build(network(), config)
        rivals = {}
        for entry in config.timing_cache.entries():
            rivals.setdefault(entry.signature, []).append(entry)
        contest = sorted((e for e in max(rivals.values(), key=len) if e.milliseconds > 0), key=lambda e: e.milliseconds)
        self.assertGreater(len(contest), 1)
        config.timing_cache.set_time(contest[-1], contest[0].milliseconds / 1000)
        tactics = [layer["tactic"] for layer in builder.build(network(), config).layers()]
        self.assertIn(contest[-1].about.split(" | ")[0], tactics)

    def test_refits_are_pending(self):
        engine = lathe.Builder(threads=1).build(network(), settings())
        before = engine(X)
        refitter = lathe.Refitter(engine, threads=1)
        refitter.set("w", WEIGHTS * 2)
        pending = refitter.refit_async()
        refitter.set("w", WEIGHTS * 0)
        np.testing.assert_array_equal(engine(X), before)
        twice = lathe.Builder(threads=1).build(network(WEIGHTS * 2), settings())
        np.testing.assert_allclose(pending.result()(X), twice(X), rtol=1e-6)
        self.assertTrue(pending.done)
        with self.assertRaises(lathe.InputError):
            lathe.Refitter(engine.serialize_stripped(), threads=1).refit_async().result()


if __name__ == "__main__":
    unittest.main(argv=["check_memory"], verbosity=1)
