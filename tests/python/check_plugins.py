# SPDX-License-Identifier: Apache-2.0
"""Custom operators in Python, and inputs and outputs of other types and formats."""
import pathlib
import sys
import tempfile
import threading
import time
import unittest

import lathe
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from tiny_model import field, node, value_info  # noqa: E402


def model_of(*nodes, inputs, outputs):
    graph = b"".join(field(1, n) for n in nodes) + field(2, "custom")
    graph += b"".join(field(11, value_info(*i)) for i in inputs) + b"".join(field(12, value_info(*o)) for o in outputs)
    return field(1, 8) + field(7, graph) + field(8, field(2, 17))


ROLL = model_of(node("Roll", "roll", ["x"], ["y"], shift=1, plugin_version="3"), inputs=[("x", ["batch", 4])], outputs=[("y", ["batch", 8])])
RELU = model_of(node("Relu", "relu", ["x"], ["y"]), inputs=[("x", [1, 2, 2, 3])], outputs=[("y", [1, 2, 2, 3])])
IMAGE = np.arange(-6, 6, dtype=np.float32).reshape(1, 2, 2, 3)


class Roll(lathe.Plugin):
    """x and x rolled, side by side."""
    version = "3"
    trouble = None

    def __init__(self, fields):
        self.shift, self.names = fields["shift"], sorted(fields)

    def infer(self, inputs):
        dtype, (rows, columns) = inputs[0]
        if self.trouble == "shape":
            return [(dtype, (rows, "many"))]
        if self.trouble == "count":
            return []
        assert (rows - rows) == 0 and columns == 4
        return [(dtype, (rows * 2 // 2, columns + 4))]

    def run(self, inputs, outputs):
        if self.trouble == "run":
            raise RuntimeError("it rains")
        outputs[0][:, :4] = inputs[0]
        outputs[0][:, 4:] = np.roll(inputs[0], self.shift, axis=1)
        if self.trouble == "write":
            inputs[0][0, 0] = 1


class Plugins(unittest.TestCase):
    def setUp(self):
        self.plugins = lathe.PluginRegistry()
        self.plugins.add(Roll)

    def tearDown(self):
        Roll.trouble = None

    def compiled(self, **more):
        return lathe.compile(ROLL, shapes={"x": ((1, 4), (2, 4), (8, 4))}, level=0, threads=2, plugins=self.plugins, progress=False, **more)

    def test_run_between_numpy_arrays(self):
        x = np.arange(8, dtype=np.float32).reshape(2, 4)
        np.testing.assert_array_equal(self.compiled()(x), np.concatenate([x, np.roll(x, 1, 1)], 1))
        self.assertEqual([p["name"] for p in self.plugins.plugins], ["Roll"])

    def test_have_tactics(self):
        class Ways(Roll):
            name, uses, told, timed, key = "Roll", [], [], [], None

            def attach(self):
                use = Ways({"shift": self.shift})
                self.uses.append(use)
                return use

            def configure(self, inputs, outputs):
                self.told.append((inputs, outputs))

            def tactics(self, inputs, outputs):
                assert inputs == [("float32", (2, 4))] and outputs == [("float32", (2, 8))]
                return [5, 9]

            def timing_key(self):
                return self.key

            def run(self, inputs, outputs, tactic):
                self.timed.append(tactic)
                if tactic != 9:
                    time.sleep(0.002)
                super().run(inputs, outputs)

        plugins = lathe.PluginRegistry()
        plugins.add(Ways)
        builder, config = lathe.Builder(threads=1, plugins=plugins), lathe.BuilderConfig()
        config.optimization_level = 3
        config.add_profile(lathe.OptimizationProfile().set_shape("x", (1, 4), (2, 4), (8, 4)))

        def timed(model=ROLL):
            Ways.timed.clear()
            return builder.build(builder.parse_onnx_bytes(model), config), set(Ways.timed)

        engine, tactics = timed()
        self.assertEqual(tactics, {5, 9})
        self.assertEqual(engine.layers()[0]["tactic"], "plugin_Roll_3_tactic_9")
        self.assertIn(([("float32", ((1, 4), (2, 4), (8, 4)))], [("float32", ((1, 8), (2, 8), (8, 8)))]), Ways.told)
        Ways.timed.clear(), Ways.uses.clear()
        x = np.arange(8, dtype=np.float32).reshape(2, 4)
        for _ in range(2):
            np.testing.assert_array_equal(lathe.ExecutionContext(engine).run([x])[0], np.concatenate([x, np.roll(x, 1, 1)], 1))
        self.assertEqual((Ways.timed, len(Ways.uses)), ([9, 9], 2))
        self.assertNotIn(5, timed()[1])  # from the cache

    def test_run_on_other_threads(self):
        engine, results = self.compiled(), []
        x = np.ones((3, 4), np.float32)
        threads = [threading.Thread(target=lambda: results.append(engine(x).sum())) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, [24] * 4)

    def test_are_needed_again(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "roll.engine"
            self.compiled(save=path)
            with self.assertRaisesRegex(lathe.InputError, "needs the plugin 'Roll' version 3, which no loaded library has"):
                lathe.load(path)
            self.assertEqual(lathe.load(path, plugins=self.plugins)(np.ones((1, 4), np.float32)).shape, (1, 8))

    def test_errors_are_theirs(self):
        for trouble, text in (("shape", "many|invalid literal|cast"), ("count", "infer.. gives 0 outputs, the node has 1")):
            Roll.trouble = trouble
            with self.assertRaisesRegex(lathe.InputError, text):
                self.compiled()
        Roll.trouble = None
        engine = self.compiled()
        for trouble, text in (("run", "it rains"), ("write", "read-only")):
            Roll.trouble = trouble
            with self.assertRaisesRegex(lathe.InputError, text):
                engine(np.ones((1, 4), np.float32))

    def test_classes_are_checked(self):
        with self.assertRaisesRegex(lathe.InputError, "no method infer"):
            self.plugins.add(int)
        with self.assertRaisesRegex(lathe.InputError, "already"):
            self.plugins.add(Roll)
        with self.assertRaisesRegex(lathe.InputError, "Unable to open library"):
            self.plugins.load("nowhere.so")


class InputsAndOutputs(unittest.TestCase):
    def test_other_types(self):
        engine = lathe.compile(RELU, level=0, io={"x": "int32", "y": ("float64",)}, progress=False)
        y = engine(IMAGE.astype(np.int32))
        self.assertEqual((engine.inputs[0].dtype, y.dtype), ("int32", np.float64))
        np.testing.assert_array_equal(y, np.maximum(IMAGE, 0))

    def test_channels_last(self):
        engine = lathe.compile(RELU, level=0, io={"x": "hwc", "y": "hwc"}, progress=False)
        self.assertEqual((engine.inputs[0].format, engine.inputs[0].shape), ("hwc", (1, 2, 2, 3)))
        memory = np.ascontiguousarray(IMAGE.transpose(0, 2, 3, 1)).reshape(IMAGE.shape)  # the shape stays logical
        y = engine(memory).reshape(1, 2, 3, 2).transpose(0, 3, 1, 2)
        np.testing.assert_array_equal(y, np.maximum(IMAGE, 0))

    def test_padded_channels(self):
        engine = lathe.compile(RELU, level=0, io={"x": "hwc8", "y": "hwc16"}, progress=False)
        self.assertEqual([(t.format, t.shape) for t in (*engine.inputs, *engine.outputs)], [("hwc8", (1, 2, 2, 3)), ("hwc16", (1, 2, 2, 3))])
        memory = np.full((1, 2, 3, 8), np.nan, np.float32)  # as it lies
        memory[..., :2] = IMAGE.transpose(0, 2, 3, 1)
        y = engine(memory)
        self.assertEqual(y.shape, (1, 2, 3, 16))
        np.testing.assert_array_equal(y[..., :2].transpose(0, 3, 1, 2), np.maximum(IMAGE, 0))
        for wrong in (IMAGE, memory[..., :2]):
            with self.assertRaisesRegex(lathe.InputError, "padded to a multiple of 8"):
                engine(wrong)

    def test_what_cannot_be(self):
        for io, text in (({"z": "hwc"}, "no input or output 'z'"), ({"x": "chw32x"}, "no tensor has type"), ({"x": ("hwc", "chw")}, "no type and format")):
            with self.assertRaisesRegex(lathe.InputError, text):
                lathe.compile(RELU, level=0, io=io, progress=False)


if __name__ == "__main__":
    unittest.main()
