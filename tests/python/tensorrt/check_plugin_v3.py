# SPDX-License-Identifier: Apache-2.0
"""A plugin of the V3 interface as people write them for TensorRT, in the network API, in a parsed model and in a plan."""
import ctypes
import pathlib
import sys
import time
import unittest

import numpy as np

import lathe.tensorrt as trt

from case import RNG, Case, infer

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "cli"))
import tiny_model as onnx  # noqa: E402


def view(address, desc):
    count = trt.volume(desc.dims)
    return np.frombuffer((ctypes.c_byte * (count * desc.type.itemsize)).from_address(address), trt.nptype(desc.type)).reshape(desc.dims)


class CirclePadding(trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuild, trt.IPluginV3OneRuntime):
    """Pads the last dim with what lies at its other end."""

    calls = []

    def __init__(self, fields=None):
        trt.IPluginV3.__init__(self)
        trt.IPluginV3OneCore.__init__(self)
        trt.IPluginV3OneBuild.__init__(self)
        trt.IPluginV3OneRuntime.__init__(self)
        self.pads = np.zeros(2, np.int32)
        self.num_outputs, self.plugin_namespace, self.plugin_name, self.plugin_version = 1, "", "CirclePadding", "1"
        for field in fields or ():
            if field.name == "pads":
                self.pads = field.data

    def get_capability_interface(self, type):  # noqa: A002
        return self

    def get_output_data_types(self, input_types):
        return [input_types[0]]

    def get_output_shapes(self, inputs, shape_inputs, exprBuilder):  # noqa: N803
        dims = trt.DimsExprs(inputs[0])
        for pad in self.pads:
            dims[-1] = exprBuilder.operation(trt.DimensionOperation.SUM, dims[-1], exprBuilder.constant(pad))
        return [dims]

    def get_fields_to_serialize(self):
        return trt.PluginFieldCollection([trt.PluginField("pads", self.pads, trt.PluginFieldType.INT32)])

    def configure_plugin(self, inp, out):
        self.calls.append("configure")

    def on_shape_change(self, inp, out):
        self.calls.append(("shapes", tuple(inp[0].dims)))

    def supports_format_combination(self, pos, in_out, num_inputs):
        return in_out[pos].desc.format == trt.TensorFormat.LINEAR and in_out[pos].desc.type == trt.DataType.FLOAT

    def get_workspace_size(self, inp, out):
        return 64

    def attach_to_context(self, context):
        self.calls.append("attach")
        return self.clone()

    def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
        assert workspace and stream == 0
        x, y = view(inputs[0], input_desc[0]), view(outputs[0], output_desc[0])
        y[...] = np.pad(x, [(0, 0)] * (x.ndim - 1) + [tuple(self.pads)], "wrap")

    def clone(self):
        other = CirclePadding()
        other.__dict__.update(self.__dict__)
        return other


class Creator(trt.IPluginCreatorV3One):
    def __init__(self):
        trt.IPluginCreatorV3One.__init__(self)
        self.name, self.plugin_namespace, self.plugin_version = "CirclePadding", "", "1"
        self.field_names = trt.PluginFieldCollection([trt.PluginField("pads", np.array([]), trt.PluginFieldType.INT32)])

    def create_plugin(self, name, fc, phase):
        return CirclePadding(fc)


class PluginsV3(Case):
    @classmethod
    def setUpClass(cls):
        registry = trt.get_plugin_registry()
        assert registry.register_creator(Creator(), "")
        assert not registry.register_creator(Creator(), "")  # it is there

    def setUp(self):
        super().setUp()
        CirclePadding.calls.clear()

    def test_in_a_network(self):
        self.assertIsInstance(trt.get_plugin_registry().get_creator("CirclePadding", "1", ""), Creator)
        plugin = CirclePadding([trt.PluginField("pads", np.array([1, 2], np.int32), trt.PluginFieldType.INT32)])
        layer = self.network.add_plugin_v3([self.input(-1, 4)], [], plugin)
        self.assertEqual((layer.type, layer.num_outputs), (trt.LayerType.PLUGIN_V3, 1))
        self.assertEqual(tuple(layer.get_output(0).shape), (-1, 7))
        layer.get_output(0).name = "y"
        self.network.mark_output(layer.get_output(0))
        profile = self.builder.create_optimization_profile()
        profile.set_shape("x", (1, 4), (2, 4), (8, 4))
        self.config.add_optimization_profile(profile)
        engine = self.engine()  # through a plan, which names the plugin and has its fields
        self.assertIn("configure", CirclePadding.calls)
        for rows in (1, 5):
            x = RNG.random((rows, 4), np.float32)
            np.testing.assert_array_equal(infer(engine, x=x)["y"], np.pad(x, [(0, 0), (1, 2)], "wrap"))
            self.assertIn(("shapes", (rows, 4)), CirclePadding.calls)
        self.assertIn("attach", CirclePadding.calls)

    def test_tactics_ranges_and_contexts(self):
        class Ways(CirclePadding):
            """The fast way is number 7."""
            made, told, attached, chosen, timed, cache_id = [], [], [], [], [], None
            timing_cache_id = property(lambda self: self.cache_id)

            def __init__(self, fields=None):
                super().__init__(fields)
                self.plugin_name, self.tactic = "Ways", 0

            def clone(self):
                other = Ways()
                other.__dict__.update(self.__dict__)
                return other

            def configure_plugin(self, inp, out):
                self.told.append((tuple(inp[0].desc.dims), tuple(inp[0].min), tuple(inp[0].opt), tuple(inp[0].max), tuple(out[0].max)))

            def get_valid_tactics(self):
                return [3, 7]

            def set_tactic(self, tactic):
                self.tactic = tactic
                self.chosen.append(tactic)

            def attach_to_context(self, context):
                other = self.clone()
                self.attached.append(other)
                return other

            def enqueue(self, *arguments):
                self.timed.append(self.tactic)
                if self.tactic != 7:
                    time.sleep(0.002)
                super().enqueue(*arguments)

        class WaysCreator(Creator):
            def __init__(self):
                super().__init__()
                self.name = "Ways"

            def create_plugin(self, name, fc, phase):
                return Ways(fc)

        trt.get_plugin_registry().register_creator(WaysCreator(), "")
        cache = self.config.create_timing_cache(b"")
        self.config.builder_optimization_level = 3
        self.config.set_timing_cache(cache, False)
        profile = self.builder.create_optimization_profile()
        profile.set_shape("x", (1, 4), (2, 4), (8, 4))
        self.config.add_optimization_profile(profile)

        def build(pads):
            self.network = self.builder.create_network(1)
            plugin = Ways([trt.PluginField("pads", np.array(pads, np.int32), trt.PluginFieldType.INT32)])
            layer = self.network.add_plugin_v3([self.input(-1, 4)], [], plugin)
            layer.get_output(0).name = "y"
            self.network.mark_output(layer.get_output(0))
            known = len([e for e in cache._cache.entries() if e.about.startswith("plugin_Ways")])
            engine = self.engine()
            return engine, len([e for e in cache._cache.entries() if e.about.startswith("plugin_Ways")]) - known

        engine, new = build([1, 2])
        self.assertGreaterEqual(new, 2)
        self.assertEqual(set(Ways.timed), {3, 7})
        self.assertEqual(set(Ways.told), {((-1, 4), (1, 4), (2, 4), (8, 4), (8, 7))})
        Ways.chosen.clear(), Ways.attached.clear()
        x = RNG.random((2, 4), np.float32)
        for _ in range(2):  # a context each
            np.testing.assert_array_equal(infer(engine, x=x)["y"], np.pad(x, [(0, 0), (1, 2)], "wrap"))
        self.assertEqual(Ways.chosen, [7, 7])
        self.assertEqual(len({id(a) for a in Ways.attached}), 2)
        self.assertEqual(build([1, 2])[1], 0)  # the cache knows it
        self.assertEqual(build([2, 1])[1], new)
        Ways.cache_id = "all pads are one"
        self.assertEqual(build([2, 1])[1], new)
        self.assertEqual(build([1, 2])[1], 0)

    def test_in_a_parsed_model(self):
        node = onnx.node("CirclePadding", "pad", ["x"], ["y"], pads=[2, 0])
        graph = (onnx.field(1, node) + onnx.field(2, "padded") + onnx.field(11, onnx.value_info("x", (2, 4)))
                 + onnx.field(12, onnx.value_info("y", (2, 6))))
        model = onnx.field(1, 8) + onnx.field(7, graph) + onnx.field(8, onnx.field(2, 17))
        parser = trt.OnnxParser(self.network, self.logger)
        self.assertTrue(parser.parse(model), self.logger.errors())
        x = RNG.random((2, 4), np.float32)
        np.testing.assert_array_equal(infer(self.engine(), x=x)["y"], np.pad(x, [(0, 0), (2, 0)], "wrap"))

    def test_what_it_does_not_take(self):
        plugin = CirclePadding([trt.PluginField("pads", np.array([1, 1], np.int32), trt.PluginFieldType.INT32)])
        self.network.mark_output(self.network.add_plugin_v3([self.input(2, 4, dtype=trt.int32)], [], plugin).get_output(0))
        self.assertIsNone(self.builder.build_serialized_network(self.network, self.config))
        self.assertIn("does not take DataType.INT32 as number 0", self.logger.errors()[-1])
        with self.assertRaisesRegex(NotImplementedError, "shape inputs"):
            self.network.add_plugin_v3([self.input(2, 4, name="z")], [self.input(1, name="s")], plugin)

        class Unknown(CirclePadding):
            def __init__(self):
                super().__init__()
                self.plugin_name = "NobodyRegisteredThis"

        self.setUp()
        self.network.mark_output(self.network.add_plugin_v3([self.input(2, 4)], [], Unknown()).get_output(0))
        self.assertIsNone(self.builder.build_serialized_network(self.network, self.config))
        self.assertIn("no creator of this plugin is registered", self.logger.errors()[-1])

    def test_dims(self):
        build = trt.IExprBuilder()
        a, b = build.constant(7), build.constant(2)
        for op, expected in ((trt.DimensionOperation.SUM, 9), (trt.DimensionOperation.PROD, 14), (trt.DimensionOperation.SUB, 5),
                             (trt.DimensionOperation.MAX, 7), (trt.DimensionOperation.MIN, 2), (trt.DimensionOperation.FLOOR_DIV, 3),
                             (trt.DimensionOperation.CEIL_DIV, 4)):
            made = build.operation(op, a, b)
            self.assertTrue(made.is_constant())
            self.assertEqual(made.get_constant_value(), expected)


if __name__ == "__main__":
    unittest.main(argv=["plugin_v3"], verbosity=1)
