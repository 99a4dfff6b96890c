# SPDX-License-Identifier: Apache-2.0
"""Every function of the package, against numpy. Run by run.py in the environment where the wheel is installed."""
import asyncio
import concurrent.futures
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy as np

import lathe

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import tiny_model as onnx  # noqa: E402

WEIGHTS = (np.arange(12, dtype=np.float32).reshape(4, 3) - 5) / 4
X = np.arange(8, dtype=np.float32).reshape(2, 4) - 3


def model_of(*nodes, inputs=("x",), outputs=("y",), columns=4, out_columns=3):
    graph = b"".join(onnx.field(1, n) for n in nodes) + onnx.field(2, "test")
    graph += onnx.field(5, onnx.tensor("w", [4, 3], WEIGHTS.ravel().tolist()))
    graph += b"".join(onnx.field(11, onnx.value_info(i, ["batch", columns])) for i in inputs)
    graph += b"".join(onnx.field(12, onnx.value_info(o, ["batch", out_columns])) for o in outputs)
    return onnx.field(1, 8) + onnx.field(7, graph) + onnx.field(8, onnx.field(2, 17))


PRODUCT = model_of(onnx.node("MatMul", "product", ["x", "w"], ["p"]), onnx.node("Relu", "relu", ["p"], ["y"]))
TWO = model_of(onnx.node("Add", "add", ["a", "b"], ["sum"]), onnx.node("Sub", "sub", ["a", "b"], ["difference"]),
               inputs=("a", "b"), outputs=("sum", "difference"), out_columns=4)
RANGE = {"x": ((1, 4), (2, 4), (64, 4))}


def expected(x):
    return np.maximum(x @ WEIGHTS, 0)


def compile_quickly(model=PRODUCT, shapes=RANGE, **more):
    return lathe.compile(model, shapes, level=0, progress=False, **{"threads": 1, **more})


class DlpackOnly:
    """An array of a library that nobody knows, with DLPack alone."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


class InterfaceOnly:
    def __init__(self, values):
        self.values, self.__array_interface__ = values, values.__array_interface__


class Calls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.engine = compile_quickly()

    def test_arrays_of_all_kinds(self):
        for name, x in {"numpy": X, "DLPack": DlpackOnly(X), "interface": InterfaceOnly(X), "strided": np.asfortranarray(X),
                        "list": X.tolist(), "memoryview": memoryview(X)}.items():
            with self.subTest(name):
                y = self.engine(x)
                self.assertIsInstance(y, np.ndarray)
                np.testing.assert_allclose(y, expected(X), rtol=1e-5)

    def test_shapes_inside_of_the_profile(self):
        for batch in (1, 64, 5):
            x = np.random.default_rng(batch).standard_normal((batch, 4), np.float32)
            np.testing.assert_allclose(self.engine(x), expected(x), rtol=1e-4, atol=1e-5)

    def test_results_are_new_arrays(self):
        first = self.engine(X)
        kept = first.copy()
        second = self.engine(X + 1)
        self.assertNotEqual(first.ctypes.data, second.ctypes.data)
        np.testing.assert_array_equal(first, kept)

    def test_writes_where_it_is_told(self):
        y = np.full((2, 3), -1, np.float32)
        self.assertIs(self.engine(X, out=y), y)
        np.testing.assert_allclose(y, expected(X), rtol=1e-5)
        z = np.zeros((2, 3), np.float32)
        self.assertIs(self.engine(x=X, out={"y": z}), z)
        np.testing.assert_array_equal(z, y)

    def test_several_inputs_and_outputs(self):
        engine = compile_quickly(TWO, {"a": (2, 4), "b": (2, 4)})
        for results in (engine(X, X + 1), engine(b=X + 1, a=X), engine(X, b=X + 1)):
            self.assertEqual(list(results), ["sum", "difference"])
            np.testing.assert_array_equal(results["sum"], 2 * X + 1)
            np.testing.assert_array_equal(results["difference"], -np.ones_like(X))

    def test_what_does_not_fit_is_an_error_with_fields(self):
        cases = {
            "another type": ((X.astype(np.float64),), {}, {"where": "input 'x'", "why": "it was given float64", "hint": "convert"}),
            "rank": ((X[0],), {}, {"what": "x"}),
            "outside of the profile": ((np.zeros((65, 4), np.float32),), {}, {"what": "65"}),
            "unknown name": ((), {"z": X}, {"where": "input 'z'", "hint": "its inputs are x"}),
            "nothing": ((), {}, {"where": "input 'x'", "what": "it was not given"}),
            "twice": ((X,), {"x": X}, {"what": "it was given twice"}),
            "too many": ((X, X), {}, {"what": "a call with 2 arrays"}),
            "no array": ((object(),), {}, {}),
            "short memory": ((X,), {"out": np.zeros((1, 3), np.float32)}, {"what": "its memory is too small", "where": "output 'y'"}),
            "read-only memory": ((X,), {"out": _read_only(np.zeros((2, 3), np.float32))}, {"what": "no writable"}),
            "unknown output": ((X,), {"out": {"z": X}}, {"where": "out['z']"}),
        }
        for name, (args, kwargs, fields) in cases.items():
            with self.subTest(name):
                with self.assertRaises((lathe.InputError, TypeError, ValueError)) as caught:
                    self.engine(*args, **kwargs)
                for field, part in fields.items():
                    self.assertIn(part, getattr(caught.exception, field))
        np.testing.assert_allclose(self.engine(X), expected(X), rtol=1e-5)  # nothing is broken behind an error

    def test_overlapping_memory_is_refused(self):
        memory = np.zeros(64, np.float32)
        with self.assertRaisesRegex(lathe.InputError, "overlaps"):
            self.engine(memory[:8].reshape(2, 4), out=memory[4:10].reshape(2, 3))

    def test_threads_share_an_engine(self):
        def work(seed):
            x = np.random.default_rng(seed).standard_normal((1 + seed % 9, 4), np.float32)
            for _ in range(50):
                np.testing.assert_allclose(self.engine(x), expected(x), rtol=1e-4, atol=1e-5)

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(16)))

    def test_the_gil_is_released(self):
        """Another thread counts while this one is inside of the engine."""
        engine = compile_quickly(_long_chain(), {"x": (8192, 4)}, threads=1)
        x = np.ones((8192, 4), np.float32)
        engine(x)
        ticks, done = [0], threading.Event()

        def tick():
            while not done.is_set():
                ticks[0] += 1
                time.sleep(0)

        switch = sys.getswitchinterval()
        sys.setswitchinterval(1000)  # nobody is made to give the GIL up: the counter gets it only where it is released
        counter = threading.Thread(target=tick)
        counter.start()
        try:
            before = ticks[0]
            engine(x)
            seen = ticks[0] - before
        finally:
            done.set()
            sys.setswitchinterval(switch)
            counter.join()
        self.assertGreater(seen, 0)

    def test_asyncio(self):
        async def both():
            return await asyncio.gather(self.engine.run_async(X), self.engine.run_async(x=X + 1))

        first, second = asyncio.run(both())
        np.testing.assert_allclose(first, expected(X), rtol=1e-5)
        np.testing.assert_allclose(second, expected(X + 1), rtol=1e-5)

    def test_profile_is_a_table(self):
        profile = self.engine.profile(X, runs=5)
        self.assertEqual(profile.runs, 5)
        self.assertEqual([row["name"] for row in profile], self.engine.layer_names())
        self.assertAlmostEqual(sum(row["percent"] for row in profile), 100, places=3)
        self.assertIn("5 runs", repr(profile))
        with self.assertRaises(ImportError):
            profile.to_pandas()



def _read_only(values):
    values.flags.writeable = False
    return values


def _long_chain():
    nodes, last = [], "x"
    for i in range(200):
        nodes.append(onnx.node("Softmax", f"softmax{i}", [last], [f"v{i}"]))
        last = f"v{i}"
    nodes.append(onnx.node("Relu", "relu", [last], ["y"]))
    return model_of(*nodes, out_columns=4)


def strings_model():
    """y = words joined to '!', s = whether y is 'a!'; of a list, of which a sequence is made."""
    exclamation = onnx.field(1, 1) + onnx.field(2, 8) + onnx.field(8, "end") + onnx.field(6, "!")
    nodes = [onnx.node("StringConcat", "join", ["words", "end"], ["y"]), onnx.node("Equal", "same", ["y", "y"], ["s"])]
    graph = b"".join(onnx.field(1, n) for n in nodes) + onnx.field(2, "test") + onnx.field(5, exclamation)
    graph += onnx.field(11, onnx.value_info("words", ["n"], 8))
    graph += onnx.field(12, onnx.value_info("y", ["n"], 8)) + onnx.field(12, onnx.value_info("s", ["n"], 9))
    return onnx.field(1, 10) + onnx.field(7, graph) + onnx.field(8, onnx.field(2, 20))


def sequence_model():
    list_of_floats = onnx.field(4, onnx.field(1, onnx.field(1, onnx.field(1, 1) + onnx.field(2, onnx.field(1, onnx.field(2, "n"))))))
    graph = onnx.field(1, onnx.node("SequenceInsert", "insert", ["x", "z"], ["y"])) + onnx.field(2, "test")
    graph += onnx.field(11, onnx.field(1, "x") + onnx.field(2, list_of_floats)) + onnx.field(11, onnx.value_info("z", [1]))
    graph += onnx.field(12, onnx.field(1, "y") + onnx.field(2, list_of_floats))
    return onnx.field(1, 8) + onnx.field(7, graph) + onnx.field(8, onnx.field(2, 17))


class StringsAndSequences(unittest.TestCase):
    def test_strings_are_str(self):
        engine = compile_quickly(strings_model(), {"words": ((1, 1), (2, 8), (4, 16))})
        self.assertEqual([t.is_string for t in (*engine.inputs, *engine.outputs)], [True, True, False])
        for words in (["a", "äö"], ("a", "äö"), np.array(["a", "äö"]), np.array(["a", "äö"], object), np.array([b"a", "äö".encode()])):
            result = engine(words)
            self.assertEqual(result["y"].tolist(), ["a!", "äö!"])
            self.assertEqual(result["s"].tolist(), [True, True])
        with tempfile.TemporaryDirectory() as folder:
            engine.save(os.path.join(folder, "e"))
            self.assertEqual(lathe.load(os.path.join(folder, "e"), threads=1)(["b"])["y"].tolist(), ["b!"])

    def test_what_is_no_string_is_an_error(self):
        engine = compile_quickly(strings_model(), {"words": ((1, 1), (2, 8), (4, 16))})
        for given, part in ((np.ones(2, np.float32), "it was given float32"), (["a", 1.5j], "takes strings"), (["a\0"], "a zero byte at its end"),
                            (["x" * 17], "17")):
            with self.assertRaises(lathe.InputError) as caught:
                engine(given)
            self.assertIn(part, str(caught.exception))

    def test_sequences_are_lists(self):
        engine = compile_quickly(sequence_model(), {"x_0": (1,), "x_1": (2,)}, lengths={"x": 2})
        x = [np.ones(1, np.float32), np.zeros(2, np.float32)]
        result = engine(x=x, z=np.full(1, 7, np.float32))
        self.assertEqual([result[f"y_{i}"].tolist() for i in range(3)], [[1], [0, 0], [7]])
        with self.assertRaises(lathe.InputError) as caught:
            engine(x=x[:1], z=x[0])
        self.assertIn("the engine was built for a sequence of 2", str(caught.exception))
        with self.assertRaises(lathe.InputError) as caught:
            compile_quickly(sequence_model(), {})
        self.assertIn("say how many tensors it has", str(caught.exception))


class Engines(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def test_describe_themselves(self):
        engine = compile_quickly()
        (x,), (y,) = engine.inputs, engine.outputs
        self.assertEqual((x.name, x.dtype, x.shape, x.dim_names, x.is_shape_tensor), ("x", "float32", (-1, 4), ["batch", "4"], False))
        self.assertEqual(y.name, "y")
        self.assertEqual(repr(x), "<x: float32 [batch, 4]>")
        self.assertEqual(engine.shape_range("x"), ((1, 4), (2, 4), (64, 4)))
        self.assertEqual(engine.profile_count, 1)
        self.assertGreater(engine.weight_bytes(), 0)
        self.assertGreaterEqual(engine.activation_bytes(), 0)

    def test_tell_their_layers(self):
        engine = compile_quickly()
        layers = engine.layers()
        self.assertEqual([layer["name"] for layer in layers], engine.layer_names())
        self.assertEqual([n for layer in layers for n in layer["onnx_nodes"]], ["product", "relu"])
        self.assertEqual((layers[0]["inputs"], layers[-1]["outputs"], layers[0]["fallback"]), (["x"], ["y"], ""))
        self.assertEqual([layer["Name"] for layer in json.loads(engine.layer_json())["Layers"]], engine.layer_names())

    def test_are_checked_before_a_build(self):
        path = self.path / "model.onnx"
        path.write_bytes(PRODUCT)
        self.assertEqual(lathe.check(path), {"supported": True, "reason": "", "unsupported_nodes": []})
        path.write_bytes(model_of(onnx.node("Frobnicate", "f", ["x"], ["y"])))
        answer = lathe.check(path)
        self.assertFalse(answer["supported"])
        self.assertEqual([(n["name"], n["op_type"]) for n in answer["unsupported_nodes"]], [("f", "Frobnicate")])
        with self.assertRaises(lathe.DeviceError):
            lathe.check(self.path / "missing.onnx")

    def test_are_saved_and_loaded(self):
        (self.path / "model.onnx").write_bytes(PRODUCT)
        engine = compile_quickly(self.path / "model.onnx", save=self.path / "a.engine")
        engine.save(str(self.path / "b.engine"))
        for loaded in (lathe.load(self.path / "a.engine", threads=1), lathe.load(self.path / "b.engine", threads=1),
                       lathe.load(engine.serialize(), threads=1)):
            np.testing.assert_allclose(loaded(X), expected(X), rtol=1e-5)
        parts = []
        engine.write(parts.append)
        self.assertGreater(len(parts), 1)
        self.assertEqual(b"".join(parts), engine.serialize())
        self.assertEqual(lathe.Runtime(threads=1).check(str(self.path / "a.engine")), {"loads": True, "reason": ""})
        (self.path / "cut.engine").write_bytes(engine.serialize()[:500])
        self.assertIn("cut.engine", lathe.Runtime(threads=1).check(str(self.path / "cut.engine"))["reason"])
        with self.assertRaises(lathe.InputError):
            lathe.load(engine.serialize()[:500])
        with self.assertRaises(lathe.DeviceError) as caught:
            lathe.load(self.path / "missing.engine")
        self.assertIn("missing.engine", str(caught.exception))

    def test_errors_have_codes(self):
        def code(call):
            with self.assertRaises(lathe.Error) as caught:
                call()
            return caught.exception.code

        codes = lathe.ErrorCode
        engine = compile_quickly()
        stripped = engine.serialize_stripped()
        self.assertIs(code(lambda: compile_quickly(model_of(onnx.node("Frobnicate", "f", ["x"], ["y"])))), codes.UNSUPPORTED_STATE)
        self.assertIs(code(lambda: compile_quickly(layer_precisions={"*": "int8"})), codes.INVALID_CONFIG)
        self.assertIs(code(lambda: lathe.load(engine.serialize()[:500])), codes.INVALID_ARGUMENT)
        self.assertIs(code(lambda: lathe.load(self.path / "missing.engine")), codes.FAILED_EXECUTION)
        self.assertIs(code(lambda: lathe.load(stripped)), codes.INVALID_STATE)
        self.assertIs(code(lambda: lathe.ExecutionContext(engine).execute()), codes.INVALID_STATE)
        self.assertIs(code(lambda: lathe.Runtime(device="63")), codes.FAILED_INITIALIZATION)
        self.assertIs(lathe.DeviceError("a disk").code, codes.FAILED_EXECUTION)

    def test_timing_caches_are_files(self):
        cache = self.path / "timing.cache"
        first = lathe.compile(PRODUCT, RANGE, level=1, threads=1, progress=False, timing_cache=cache)
        size = cache.stat().st_size
        self.assertGreater(size, 0)
        second = lathe.compile(PRODUCT, RANGE, level=1, threads=1, progress=False, timing_cache=cache)
        self.assertEqual(first.serialize(), second.serialize())
        times = lathe.TimingCache()
        self.assertTrue(times.load(str(cache)))
        self.assertFalse(times.load(str(self.path / "none")))
        self.assertGreater(len(times), 0)
        both = lathe.TimingCache()
        both.merge(times)
        self.assertEqual(len(both), len(times))

    def test_arguments_are_checked(self):
        for arguments, part in ((dict(precision="fp7"), "fp16"), (dict(shapes={"z": (1,)}), "its inputs are x"),
                                (dict(shapes={"x": ((1, 4), (2, 4))}), "(min, opt, max)"), (dict(device="toaster"), "toaster")):
            with self.assertRaises(lathe.InputError) as caught:
                compile_quickly(**arguments)
            self.assertIn(part, str(caught.exception))
        with self.assertRaises(lathe.InputError):
            lathe.compile(b"no model", level=0)

    def test_precisions(self):
        for precision in ("fp16", "bf16", "best"):
            engine = compile_quickly(precision=precision)
            np.testing.assert_allclose(engine(X), expected(X), rtol=0.05, atol=0.05)

    def test_precisions_of_layers(self):
        if "bfloat16" in lathe.Runtime(threads=1).fast_types:
            x = X + np.float32(1 / 3)  # BF16 has 8 bits for it
            low = compile_quickly(layer_precisions={"*": "bfloat16"})(x)
            np.testing.assert_allclose(low, expected(x), rtol=0.05, atol=0.05)
            self.assertGreater(np.abs(low - expected(x)).max(), 1e-4)
        exact = compile_quickly(precision="best", layer_precisions={"*": "float32"})(X)
        np.testing.assert_allclose(exact, expected(X), rtol=1e-5, atol=1e-6)
        with self.assertRaisesRegex(lathe.InputError, "cannot compute in int8 on demand"):
            compile_quickly(layer_precisions={"*": "int8"})
        config = lathe.BuilderConfig()
        self.assertTrue(config.obey_layer_precisions)
        config.obey_layer_precisions = False
        self.assertFalse(config.obey_layer_precisions)


class Builds(unittest.TestCase):
    def test_tell_progress(self):
        heard = []
        lathe.compile(PRODUCT, RANGE, level=1, threads=1, progress=lambda *step: heard.append(step))
        self.assertEqual(heard[0][0], "Tuning")
        self.assertTrue(all(0 <= done <= total for _, done, total, _ in heard))

    def test_are_cancelled(self):
        with self.assertRaises(lathe.Cancelled):
            lathe.compile(PRODUCT, RANGE, level=1, threads=1, progress=lambda *step: False)

        def fail(*step):
            raise ZeroDivisionError("mine")

        with self.assertRaisesRegex(ZeroDivisionError, "mine"):
            lathe.compile(PRODUCT, RANGE, level=1, threads=1, progress=fail)

    def test_show_a_bar_on_a_terminal(self):
        code = ("import pty, os, sys\npid, fd = pty.fork()\nif pid == 0:\n    import lathe\n"
                f"    lathe.compile({PRODUCT!r}, {RANGE!r}, level=1, threads=1)\n    os._exit(0)\n"
                "text = b''\ntry:\n    while part := os.read(fd, 4096): text += part\nexcept OSError: pass\n"
                "os.waitpid(pid, 0)\nsys.stdout.buffer.write(text)\n")
        text = subprocess.run([sys.executable, "-c", code], capture_output=True).stdout
        self.assertIn(b"Tuning", text)
        self.assertIn(b"[####", text)

    def test_have_as_many_threads_as_they_may(self):
        """Of the host, while they build and run: `threads` counts the caller."""
        code = ("import os, sys, numpy as np, lathe\n"
                "def count(): return len(os.listdir('/proc/self/task'))\n"
                "before, threads = count(), int(sys.argv[1])\n"
                f"engine = lathe.compile({PRODUCT!r}, {RANGE!r}, level=1, threads=threads, progress=False)\n"
                "plan = engine.serialize()\n"
                "for e in (engine, lathe.load(plan, threads=threads)): e(np.ones((2, 4), np.float32))\n"
                "built = count()\n"
                "del engine, e\n"
                "again = lathe.load(plan, threads=threads)\n"
                "again(np.ones((2, 4), np.float32))\n"
                "print(built - before, count() - before)\n")
        for threads in (1, 3):
            done = subprocess.run([sys.executable, "-c", code, str(threads)], capture_output=True, text=True)
            # The first engine's threads and those of the one that was loaded beside it; then the last one's alone.
            self.assertEqual(done.stdout.split(), [str(2 * (threads - 1)), str(threads - 1)], done.stderr)

    def test_log_to_logging(self):
        with self.assertLogs("lathe", logging.INFO) as caught:
            compile_quickly()
        self.assertTrue(any("Engine generation completed" in line for line in caught.output), caught.output)

    def test_the_full_way(self):
        builder = lathe.Builder(threads=1)
        network = builder.parse_onnx_bytes(PRODUCT)
        self.assertEqual((network.name, [t.name for t in network.inputs], [t.name for t in network.outputs]), ("test", ["x"], ["y"]))
        self.assertGreater(network.layer_count, 0)
        config = lathe.BuilderConfig()
        config.optimization_level = 0
        config.add_profile(lathe.OptimizationProfile().set_shape("x", [1, 4], [2, 4], [8, 4]))
        engine = builder.build(network, config)
        context = lathe.ExecutionContext(engine)
        self.assertEqual(context.infer_shapes(), ["x"])
        context.set_input_shape("x", [2, 4])
        self.assertEqual((context.tensor_shape("y"), context.tensor_bytes("y")), ((2, 3), 24))
        x, y = X.copy(), np.empty((2, 3), np.float32)
        context.bind_input("x", x)
        context.bind_output("y", y)
        self.assertEqual((context.tensor_address("x"), context.tensor_address("y")), (x.ctypes.data, y.ctypes.data))
        context.execute()
        np.testing.assert_allclose(y, expected(X), rtol=1e-5)
        x += 1  # read in place, at each run
        profiler = lathe.Profiler()
        context.execute(profiler)
        np.testing.assert_allclose(y, expected(X + 1), rtol=1e-5)
        self.assertEqual((profiler.runs, len(profiler.layers)), (1, len(engine.layer_names())))
        self.assertGreaterEqual(context.device_bytes, 0)
        context.set_profile(0)
        self.assertEqual((context.profile, context.tensor_address("x")), (0, 0))
        with self.assertRaisesRegex(lathe.InputError, "no shape tensor|shape tensor"):
            context.set_input_values("x", [1])
        with self.assertRaises(lathe.InputError):
            context.bind_input("nothing", X)

    def test_memory_of_the_caller_and_what_lies_between_layers(self):
        net = lathe.NetworkBuilder("softmaxes")
        x = net.input("x", "float32", [4, 64])
        for i in range(3):
            x = net.softmax(net.transpose(x, [1, 0]), name=f"s{i}")
        net.output(x, "y")
        engine = lathe.compile(net, level=0, threads=1, progress=False)
        values, y = np.random.default_rng(1).random((4, 64), np.float32), np.empty((64, 4), np.float32)
        context = lathe.ExecutionContext(engine)
        memory = np.zeros(context.memory_bytes + 256, np.uint8)
        context.set_memory(memory.ctypes.data + -memory.ctypes.data % 256, context.memory_bytes)
        context.bind_input("x", values)
        context.bind_output("y", y)
        seen = {}
        context.set_debug_listener(seen.__setitem__)
        context.execute()
        self.assertTrue(memory.any())
        self.assertEqual(list(seen), context.debug_tensors())
        np.testing.assert_array_equal(seen["y"], y)
        np.testing.assert_array_equal(y, engine(values))
        np.testing.assert_allclose(seen["s1_output"].sum(-1), 1, rtol=1e-5)

        def fail(name, array):
            raise ZeroDivisionError(name)

        context.set_debug_listener(fail, ["s1_output"])
        with self.assertRaisesRegex(ZeroDivisionError, "s1_output"):
            context.execute()
        context.set_debug_listener(None)
        context.execute()
        self.assertTrue(engine.uses_host_memory)
        with self.assertRaisesRegex(lathe.InputError, "a CUDA stream was given"):
            context.enqueue_cuda(0)
        with self.assertRaisesRegex(lathe.InputError, "too small"):
            context.set_memory(memory.ctypes.data, 1)

    def test_bound_arrays_stay_alive(self):
        context = lathe.ExecutionContext(compile_quickly())
        context.bind_input("x", X.copy())
        y = np.empty((2, 3), np.float32)
        context.bind_output("y", y)
        junk = [np.full((2, 4), 7, np.float32) for _ in range(1000)]
        context.execute()
        np.testing.assert_allclose(y, expected(X), rtol=1e-5)
        del junk

    def test_files_of_other_devices_are_made_anew(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.engine")
            compile_quickly(save=path)
            builder, config = lathe.Builder(threads=1), lathe.BuilderConfig()
            config.optimization_level = 1
            for engine in (builder.retarget(path), builder.retune(path, config)):
                np.testing.assert_allclose(engine(X), expected(X), rtol=1e-5)

    def test_other_weights(self):
        def with_weights(x, w):
            return np.maximum(x @ w, 0)

        engine, other = compile_quickly(), WEIGHTS[::-1] * 3 + 1
        self.assertEqual([(w["name"], w["dtype"], w["shape"], w["missing"]) for w in lathe.Refitter(engine).weights],
                         [("w", "float32", (4, 3), False)])
        np.testing.assert_allclose(lathe.refit(engine, {"w": other})(X), with_weights(X, other), rtol=1e-5)
        np.testing.assert_allclose(engine(X), expected(X), rtol=1e-5)  # as it was
        model = PRODUCT.replace(WEIGHTS.tobytes(), np.ascontiguousarray(other, np.float32).tobytes())
        self.assertNotEqual(model, PRODUCT)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.engine")
            engine.save(path)
            np.testing.assert_allclose(lathe.refit(path, model, threads=1)(X), with_weights(X, other), rtol=1e-5)
        for name, values, text in (("v", WEIGHTS, "has no weights 'v'"), ("w", WEIGHTS[:2], "are float32 4x3, float32 2x3 was given")):
            with self.assertRaisesRegex(lathe.InputError, text):
                lathe.refit(engine, {name: values})

    def test_stripped_files(self):
        big = (np.arange(4096, dtype=np.float32).reshape(64, 64) % 17 - 8) / 64
        net = lathe.NetworkBuilder("big")
        x = net.input("x", "float32", (2, 64))
        net.output(net.matrix_multiply(x, net.constant(big, name="w")), "y")
        engine = lathe.compile(net, level=0, threads=1, progress=False)
        stripped = engine.serialize_stripped()
        self.assertLessEqual(len(stripped), len(engine.serialize()) - big.nbytes)
        with self.assertRaisesRegex(lathe.InputError, "stripped of its weights"):
            lathe.load(stripped, threads=1)
        with self.assertRaisesRegex(lathe.InputError, "1 of them were not given: 'w'"):
            lathe.refit(stripped, {}, threads=1)
        values = np.ones((2, 64), np.float32)
        np.testing.assert_allclose(lathe.refit(stripped, {"w": big}, threads=1)(values), values @ big, rtol=1e-4, atol=1e-5)

    def test_types_that_a_device_is_fast_in(self):
        """Flags have an effect for these types, and say that they have none for the others."""
        types = lathe.Runtime(threads=1).fast_types
        for flag, name in (("fp16", "float16"), ("bf16", "bfloat16")):
            lines = []
            builder, config = lathe.Builder(threads=1, log=lambda severity, text: lines.append(text)), lathe.BuilderConfig()
            config.optimization_level = 0
            setattr(config, flag, True)
            config.add_profile(lathe.OptimizationProfile().set_shape("x", [1, 4], [2, 4], [8, 4]))
            builder.build(builder.parse_onnx_bytes(PRODUCT), config)
            self.assertEqual(any(f"--{flag} has no effect" in line for line in lines), name not in types, (types, lines))

    def test_devices(self):
        runtime = lathe.Runtime(threads=1)
        self.assertTrue(runtime.device_description)
        self.assertTrue(dict(runtime.device_properties))
        self.assertEqual(lathe.__version__, lathe.version())

    def test_the_cuda_backend_is_in_the_wheel(self):
        """Where there is no GPU, the error says whether the library was there to be asked."""
        text, there = "", (pathlib.Path(lathe.__file__).parent / "liblathe_cuda.so").exists()
        try:
            lathe.Runtime("0")
        except lathe.Error as error:
            text = str(error)
        self.assertEqual(there, "has no liblathe_cuda.so" not in text, text)


if __name__ == "__main__":
    unittest.main()
