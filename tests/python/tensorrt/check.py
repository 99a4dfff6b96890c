# SPDX-License-Identifier: Apache-2.0
"""Programs as people write them for TensorRT's Python API, with one changed import, against numpy. Run by run.py in the environment
where the wheel is installed."""
import json
import pathlib
import sys
import tempfile
import unittest

import numpy as np

import lathe.tensorrt as trt

from case import RNG, Case, HostBuffers, Lines, infer

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "cli"))
import tiny_model  # noqa: E402


class Refit(Case):
    def build(self):
        values = (np.arange(64, dtype=np.float32).reshape(8, 8) % 7 - 3) / 8
        product = self.network.add_matrix_multiply(self.input(2, 8), trt.MatrixOperation.NONE, self.constant(values),
                                                   trt.MatrixOperation.NONE)
        product.get_output(0).name = "y"
        self.network.mark_output(product.get_output(0))
        return values

    def test_by_name(self):
        self.config.set_flag(trt.BuilderFlag.REFIT)
        values, x = self.build(), RNG.random((2, 8), np.float32)
        engine = self.engine()
        self.assertTrue(engine.refittable)
        refitter = trt.Refitter(engine, self.logger)
        name, = refitter.get_all_weights()
        self.assertFalse(refitter.set_named_weights("nothing", trt.Weights(values)))
        self.assertIn("has no weights 'nothing'", self.logger.errors()[-1])
        self.assertTrue(refitter.set_named_weights(name, trt.Weights((values * 2 + 1).ravel())))
        np.testing.assert_allclose(infer(engine, x=x)["y"], x @ values, rtol=1e-4, atol=1e-5)
        self.assertTrue(refitter.refit_cuda_engine())
        np.testing.assert_allclose(infer(engine, x=x)["y"], x @ (values * 2 + 1), rtol=1e-4, atol=1e-5)

    def test_on_a_stream(self):
        values, x = self.build(), RNG.random((2, 8), np.float32)
        engine = self.engine()
        old = engine.create_execution_context()
        buffers = HostBuffers(engine, old, {"x": x})
        refitter = trt.Refitter(engine, self.logger)
        name, = refitter.get_all_weights()
        self.assertTrue(refitter.set_named_weights(name, values * 2))
        self.assertTrue(refitter.refit_cuda_engine_async(0))
        self.assertTrue(refitter.set_named_weights(name, values * 3))  # of the next one
        self.assertTrue(old.execute_async_v3(0))
        np.testing.assert_allclose(buffers.arrays["y"], x @ values, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(infer(engine, x=x)["y"], x @ (values * 2), rtol=1e-4, atol=1e-5)
        self.config.set_flag(trt.BuilderFlag.STRIP_PLAN)
        stripped = self.engine()
        refitter = trt.Refitter(stripped, self.logger)
        self.assertFalse(refitter.refit_cuda_engine_async(0))
        self.assertIn("weights are missing", self.logger.errors()[-1])
        self.assertTrue(refitter.set_named_weights(name, values))
        self.assertTrue(refitter.refit_cuda_engine_async(0))
        np.testing.assert_allclose(infer(stripped, x=x)["y"], x @ values, rtol=1e-4, atol=1e-5)

    def test_stripped_plan(self):
        self.config.set_flag(trt.BuilderFlag.STRIP_PLAN)
        values, x = self.build(), RNG.random((2, 8), np.float32)
        engine = self.engine()
        self.assertIsNone(engine.create_execution_context())
        self.assertIn("stripped of its weights", self.logger.errors()[-1])
        refitter = trt.Refitter(engine, self.logger)
        name, = refitter.get_missing_weights()
        self.assertFalse(refitter.refit_cuda_engine())
        self.assertTrue(refitter.set_named_weights(name, values))
        self.assertEqual(refitter.get_missing_weights(), [])
        self.assertTrue(refitter.refit_cuda_engine(), self.logger.errors())
        np.testing.assert_allclose(infer(engine, x=x)["y"], x @ values, rtol=1e-4, atol=1e-5)

    def test_from_onnx(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.onnx"
            tiny_model.write(path, size=16, batch=1)
            parser = trt.OnnxParser(self.network, self.logger)
            self.assertTrue(parser.parse_from_file(str(path)), self.logger.errors())
            self.config.set_flag(trt.BuilderFlag.STRIP_PLAN)
            engine = self.engine()
            refitter = trt.Refitter(engine, self.logger)
            again = trt.OnnxParserRefitter(refitter, self.logger)
            self.assertFalse(again.refit_from_bytes(b"no model"))
            self.assertEqual(again.num_errors, 1)
            self.assertTrue(again.refit_from_file(str(path)))
            self.assertTrue(refitter.refit_cuda_engine(), self.logger.errors())
        self.assertEqual(infer(engine, input=RNG.random((1, 3, 16, 16), np.float32))["output"].shape, (1, 10))

    def test_from_onnx_with_weights_in_a_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.onnx"
            tiny_model.write(path, size=16, batch=1, external="weights.bin")
            parser = trt.OnnxParser(self.network, self.logger)
            self.assertTrue(parser.parse_from_file(str(path)), self.logger.errors())
            refitter = trt.Refitter(self.engine(), self.logger)
            again = trt.OnnxParserRefitter(refitter, self.logger)
            self.assertFalse(again.refit_from_bytes(path.read_bytes()))
            self.assertTrue(again.refit_from_bytes(path.read_bytes(), str(path)), self.logger.errors())


class InputsAndOutputs(Case):
    def test_types_and_formats(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.onnx"
            tiny_model.write(path, size=16, batch=1)
            self.assertTrue(trt.OnnxParser(self.network, self.logger).parse_from_file(str(path)), self.logger.errors())
        image, output = self.network.get_input(0), self.network.get_output(0)
        image.dtype, image.allowed_formats = trt.int32, 1 << trt.TensorFormat.HWC
        output.dtype = trt.float16
        with self.assertRaisesRegex(NotImplementedError, "allowed_formats"):
            image.allowed_formats = 1 << trt.TensorFormat.CHW32
        engine = self.engine()
        self.assertEqual((engine.get_tensor_dtype("input"), engine.get_tensor_format("input")), (trt.int32, trt.TensorFormat.HWC))
        self.assertEqual((engine.get_tensor_dtype("output"), engine.get_tensor_format("output")), (trt.float16, trt.TensorFormat.LINEAR))

    def test_padded_channels(self):
        x = self.network.add_input("x", trt.float32, (1, 3, 2, 4))
        y = self.network.add_activation(x, trt.ActivationType.RELU).get_output(0)
        y.name = "y"
        self.network.mark_output(y)
        x.allowed_formats, y.allowed_formats = 1 << trt.TensorFormat.HWC8, 1 << trt.TensorFormat.HWC16
        engine = self.engine()
        self.assertEqual([engine.get_tensor_format(n) for n in "xy"], [trt.TensorFormat.HWC8, trt.TensorFormat.HWC16])
        context = engine.create_execution_context()
        self.assertEqual([tuple(context.get_tensor_strides(n)) for n in "xy"], [(64, 1, 32, 8), (128, 1, 64, 16)])
        image = np.random.default_rng(1).standard_normal((1, 3, 2, 4), np.float32)
        memory, result = np.full((1, 2, 4, 8), np.nan, np.float32), np.zeros((1, 2, 4, 16), np.float32)
        memory[..., :3] = image.transpose(0, 2, 3, 1)
        context.set_tensor_address("x", memory.ctypes.data)
        context.set_tensor_address("y", result.ctypes.data)
        self.assertTrue(context.execute_async_v3(0))
        np.testing.assert_array_equal(result[..., :3].transpose(0, 3, 1, 2), np.maximum(image, 0))


class Plugins(Case):
    def test_registry(self):
        registry = trt.get_plugin_registry()
        self.assertIs(registry, self.builder.get_plugin_registry())
        with self.assertRaisesRegex(Exception, "Unable to open library"):
            registry.load_library("nowhere.so")


class OnnxModels(Case):
    """As the introductory samples: parse, build, save, load, run."""

    def parse(self, size=32, batch="batch"):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.onnx"
            tiny_model.write(path, size=size)
            parser = trt.OnnxParser(self.network, self.logger)
            self.assertTrue(parser.parse(path.read_bytes()), self.logger.errors())

    def test_classification(self):
        self.parse()
        self.config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 30)
        profile = self.builder.create_optimization_profile()
        profile.set_shape("input", (1, 3, 32, 32), (2, 3, 32, 32), (4, 3, 32, 32))
        self.assertEqual(self.config.add_optimization_profile(profile), 0)
        plan = self.builder.build_serialized_network(self.network, self.config)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.engine"
            with open(path, "wb") as file:
                file.write(plan)
            with open(path, "rb") as file, trt.Runtime(self.logger) as runtime:
                engine = runtime.deserialize_cuda_engine(file.read())
        self.assertEqual((engine.num_io_tensors, list(engine)), (2, ["input", "output"]))
        self.assertEqual(tuple(engine.get_tensor_shape("input")), (-1, 3, 32, 32))
        self.assertEqual(engine.get_tensor_dtype("output"), trt.DataType.FLOAT)
        self.assertEqual([tuple(s) for s in engine.get_tensor_profile_shape("input", 0)],
                         [(1, 3, 32, 32), (2, 3, 32, 32), (4, 3, 32, 32)])
        images = RNG.random((3, 3, 32, 32), np.float32)
        together = infer(engine, input=images)["output"]
        self.assertEqual(together.shape, (3, 10))
        for i in range(3):
            np.testing.assert_allclose(infer(engine, input=images[i:i + 1])["output"], together[i:i + 1], rtol=1e-4, atol=1e-5)
        context = engine.create_execution_context()
        self.assertFalse(context.set_input_shape("input", (5, 3, 32, 32)))
        self.assertIn("outside of its optimization profile, (1, 3, 32, 32) to (4, 3, 32, 32)", self.logger.errors()[-1])

    def test_static_batch_by_the_network(self):
        self.parse()
        self.assertEqual(tuple(self.network.get_input(0).shape), (-1, 3, 32, 32))
        self.network.get_input(0).shape = [2, 3, 32, 32]
        engine = self.engine()
        self.assertEqual(tuple(engine.get_tensor_shape("output")), (2, 10))

    def test_types_of_parsed_layers(self):
        self.parse()
        self.network.get_input(0).shape = [1, 3, 32, 32]
        first = next(layer for layer in self.network if layer.type == trt.LayerType.CONVOLUTION)
        self.assertFalse(first.precision_is_set or first.output_type_is_set(0))
        first.precision = trt.int8
        first.set_output_type(0, trt.float32)
        again = next(layer for layer in self.network if layer.name == first.name)
        self.assertEqual((again.precision, again.get_output_type(0)), (trt.int8, trt.float32))
        self.assertIsNotNone(self.builder.build_serialized_network(self.network, self.config))  # nobody asks that they hold
        self.config.set_flag(trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
        self.assertIsNone(self.builder.build_serialized_network(self.network, self.config))
        self.assertIn(f"layer '{first.name}' cannot compute in int8 on demand", self.logger.errors()[-1])
        first.precision = trt.float32
        self.assertIsNotNone(self.builder.build_serialized_network(self.network, self.config), self.logger.errors())
        again.reset_precision()
        again.reset_output_type(0)
        self.assertFalse(first.precision_is_set or first.output_type_is_set(0))

    def test_walk_and_extend(self):
        self.parse()
        self.assertGreater(self.network.num_layers, 3)
        kinds = [layer.type for layer in self.network]
        self.assertIn(trt.LayerType.CONVOLUTION, kinds)
        y = self.network.get_output(0)
        self.network.unmark_output(y)
        best = self.network.add_topk(y, trt.TopKOperation.MAX, 1, 1 << 1)
        images = RNG.random((1, 3, 32, 32), np.float32)
        self.network.get_input(0).shape = [1, 3, 32, 32]
        index = self.result(best.get_output(1), input=images)
        self.assertEqual((index.shape, index.dtype), ((1, 1), np.int32))

    def test_what_cannot_be_parsed(self):
        parser = trt.OnnxParser(self.network, self.logger)
        self.assertFalse(parser.parse(b"not a model"))
        self.assertEqual(parser.num_errors, 1)
        self.assertTrue(parser.get_error(0).desc())
        self.assertFalse(parser.parse_from_file("/nowhere/model.onnx"))
        self.assertTrue(parser.supports_operator("Conv"))
        self.assertFalse(parser.supports_operator("Nonsense"))


class DigitsNetwork(Case):
    """As the network API samples: layers with weights, attributes set behind the call."""

    def test_digits(self):
        weights = {"conv1": (4, 1, 5, 5), "bias1": (4,), "conv2": (6, 4, 5, 5), "bias2": (6,), "fc1": (20, 96), "fcb1": (20,),
                   "fc2": (10, 20), "fcb2": (10,)}
        weights = {name: (RNG.standard_normal(shape) / 5).astype(np.float32) for name, shape in weights.items()}
        network = self.network

        def product(tensor, outputs, w, b):
            dims = 1
            for d in tensor.shape:
                dims *= d
            flat = network.add_shuffle(tensor)
            flat.reshape_dims = trt.Dims2(1, dims)
            kernel = network.add_constant(trt.Dims2(outputs, dims), w).get_output(0)
            y = network.add_matrix_multiply(flat.get_output(0), trt.MatrixOperation.NONE, kernel, trt.MatrixOperation.TRANSPOSE)
            bias = network.add_constant(trt.Dims2(1, outputs), b).get_output(0)
            return network.add_elementwise(y.get_output(0), bias, trt.ElementWiseOperation.SUM).get_output(0)

        x = network.add_input(name="data", dtype=trt.float32, shape=(1, 1, 28, 28))
        conv1 = network.add_convolution_nd(input=x, num_output_maps=4, kernel_shape=(5, 5), kernel=weights["conv1"], bias=weights["bias1"])
        conv1.stride_nd = (1, 1)
        pool1 = network.add_pooling_nd(input=conv1.get_output(0), type=trt.PoolingType.MAX, window_size=(2, 2))
        pool1.stride_nd = trt.Dims2(2, 2)
        conv2 = network.add_convolution_nd(pool1.get_output(0), 6, (5, 5), weights["conv2"], weights["bias2"])
        pool2 = network.add_pooling_nd(conv2.get_output(0), trt.PoolingType.MAX, (2, 2))
        pool2.stride_nd = trt.Dims2(2, 2)
        self.assertEqual(tuple(pool2.get_output(0).shape), (1, 6, 4, 4))
        hidden = network.add_activation(input=product(pool2.get_output(0), 20, weights["fc1"], weights["fcb1"]), type=trt.ActivationType.RELU)
        y = product(hidden.get_output(0), 10, weights["fc2"], weights["fcb2"])
        image = RNG.random((1, 1, 28, 28), np.float32)
        actual = self.result(y, data=image)

        def conv(x, w, b):
            windows = np.lib.stride_tricks.sliding_window_view(x[0], w.shape[2:], axis=(1, 2))
            return (np.einsum("cyxhw,ochw->oyx", windows, w) + b[:, None, None])[None]

        def pool(x):
            n, c, h, w = x.shape
            return x.reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))

        z = pool(conv(pool(conv(image, weights["conv1"], weights["bias1"])), weights["conv2"], weights["bias2"]))
        z = np.maximum(weights["fc1"] @ z.ravel() + weights["fcb1"], 0)
        np.testing.assert_allclose(actual[0], weights["fc2"] @ z + weights["fcb2"], rtol=1e-3, atol=1e-4)


class DynamicShapes(Case):
    """A preprocessor for images of any size, as the samples of dynamic shapes have it, with two profiles."""

    def test_resize_any_image(self):
        x = self.network.add_input("image", trt.float32, (-1, 1, -1, -1))
        resize = self.network.add_resize(x)
        resize.shape = (1, 1, 8, 8)
        resize.resize_mode = trt.InterpolationMode.LINEAR
        resize.coordinate_transformation = trt.ResizeCoordinateTransformation.HALF_PIXEL
        self.network.mark_output(resize.get_output(0))
        for size in (8, 32):
            profile = self.builder.create_optimization_profile()
            profile.set_shape("image", (1, 1, 4, 4), (1, 1, size, size), (1, 1, 64, 64))
            self.config.add_optimization_profile(profile)
        engine = self.engine()
        self.assertEqual(engine.num_optimization_profiles, 2)
        context = engine.create_execution_context()
        self.assertTrue(context.set_optimization_profile_async(1, 0))
        for size in (4, 16, 64):
            context.set_input_shape("image", (1, 1, size, size))
            self.assertTrue(context.all_binding_shapes_specified)
            image, out = np.full((1, 1, size, size), 3, np.float32), np.empty((1, 1, 8, 8), np.float32)
            self.assertTrue(context.execute_v2([image.ctypes.data, out.ctypes.data]), self.logger.errors())
            np.testing.assert_allclose(out, 3, rtol=1e-6)
        self.assertFalse(context.set_optimization_profile_async(2, 0))

    def test_sizes_that_depend_on_data(self):
        x = self.input(8)
        self.network.mark_output(self.network.add_non_zero(x).get_output(0))
        engine = self.engine()
        layers = json.loads(engine.create_engine_inspector().get_engine_information(trt.LayerInformationFormat.JSON))["Layers"]
        self.assertEqual([len(layer.get("FindsDims", [])) for layer in layers if "NonZero" in layer["Name"] or "Non_Zero" in layer["Name"]][:1], [1], layers)
        self.assertEqual(sum("FindsDims" in layer for layer in layers), 1)
        name = engine.get_tensor_name(1)
        context = engine.create_execution_context()
        values = np.array([0, 1, 0, 0, 2, 3, 0, 0], np.float32)

        class Allocator(trt.IOutputAllocator):
            shape, memory = None, None

            def reallocate_output(self, tensor_name, memory, size, alignment):
                self.memory = np.empty(max(size, 1), np.uint8)
                return self.memory.ctypes.data

            def notify_shape(self, tensor_name, shape):
                self.shape = tuple(shape)

        allocator = Allocator()
        context.set_tensor_address("x", values.ctypes.data)
        context.set_output_allocator(name, allocator)
        self.assertTrue(context.execute_async_v3(0), self.logger.errors())
        self.assertEqual(allocator.shape, (1, 3))
        self.assertEqual(allocator.memory[:12].view(np.int32).tolist(), [1, 4, 5])


class Runs(Case):
    def simple(self):
        x = self.input(2, 3)
        layer = self.network.add_unary(x, trt.UnaryOperation.NEG)
        layer.name = "flip"
        layer.get_output(0).name = "y"
        self.network.mark_output(layer.get_output(0))
        return self.engine()

    def test_profiler_and_inspector(self):
        engine = self.simple()

        class Times(trt.IProfiler):
            seen = []

            def report_layer_time(self, layer_name, ms):
                self.seen.append((layer_name, ms))

        context = engine.create_execution_context()
        context.profiler = Times()
        HostBuffers(engine, context, {"x": np.zeros((2, 3))})
        x, y = np.ones((2, 3), np.float32), np.empty((2, 3), np.float32)
        self.assertTrue(context.execute_v2([x.ctypes.data, y.ctypes.data]))
        self.assertEqual(len(Times.seen), engine.num_layers)
        self.assertTrue((y == -1).all())
        inspector = engine.create_engine_inspector()
        self.assertIn("flip", inspector.get_engine_information(trt.LayerInformationFormat.JSON))
        self.assertIn("flip", inspector.get_layer_information(0, trt.LayerInformationFormat.ONELINE))

    def test_wrong_uses_answer_false_and_say_why(self):
        engine = self.simple()
        context = engine.create_execution_context()
        self.assertFalse(context.execute_async_v3(0))
        self.assertIn("its address is not set", self.logger.errors()[-1])
        self.assertFalse(context.set_input_shape("x", (3, 3)))
        with self.assertRaisesRegex(ValueError, "no tensor 'z'"):
            context.set_tensor_address("z", 1)
        self.assertIsNone(trt.Runtime(self.logger).deserialize_cuda_engine(b"nonsense"))
        network = self.builder.create_network()
        network.add_input("x", trt.float32, (1,))
        self.assertIsNone(self.builder.build_serialized_network(network, self.config))
        self.assertIn("it has no outputs", self.logger.errors()[-1])

    def test_error_recorder(self):
        class Recorder(trt.IErrorRecorder):
            errors = []

            def report_error(self, code, desc):
                self.errors.append((code, desc))

        self.builder.error_recorder = Recorder()
        self.assertIsNone(self.builder.build_serialized_network(self.network, self.config))
        self.assertEqual(Recorder.errors, [(trt.ErrorCodeTRT.INVALID_ARGUMENT, Recorder.errors[0][1])])

    def test_timing_cache(self):
        cache = self.config.create_timing_cache(b"")
        self.assertTrue(self.config.set_timing_cache(cache, False))
        self.config.builder_optimization_level = 1
        first = self.simple().serialize()
        text = self.config.get_timing_cache().serialize()
        self.assertGreater(text.nbytes, 20)
        other = self.builder.create_builder_config()
        other.builder_optimization_level = 1
        other.set_timing_cache(other.create_timing_cache(text), False)
        other.set_flag(trt.BuilderFlag.ERROR_ON_TIMING_CACHE_MISS)
        second = self.builder.build_serialized_network(self.network, other)
        self.assertEqual(bytes(first), bytes(second))

    def test_progress(self):
        class Monitor(trt.IProgressMonitor):
            events = []

            def phase_start(self, name, parent, steps):
                self.events.append(("start", name))

            def step_complete(self, name, step):
                return False

            def phase_finish(self, name):
                self.events.append(("finish", name))

        self.config.builder_optimization_level = 3
        self.config.progress_monitor = Monitor()
        x = self.input(8, 256)
        w = self.constant(RNG.standard_normal((256, 256)))
        self.network.mark_output(self.network.add_matrix_multiply(x, trt.MatrixOperation.NONE, w, trt.MatrixOperation.NONE).get_output(0))
        self.assertIsNone(self.builder.build_serialized_network(self.network, self.config))
        self.assertEqual([what for what, _ in Monitor.events], ["start", "finish"])  # a cancelled build ends its phase
        self.assertEqual(len({name for _, name in Monitor.events}), 1)


class Names(unittest.TestCase):
    def test_types(self):
        self.assertEqual(str(trt.float32), "DataType.FLOAT")
        self.assertEqual((trt.float16.itemsize, trt.int4.itemsize, trt.int64.itemsize), (2, 0.5, 8))
        self.assertEqual(trt.nptype(trt.int8), np.int8)
        self.assertEqual(trt.volume((2, 3, 4)), 24)
        self.assertEqual(str(trt.Dims([1, 2])), "(1, 2)")
        self.assertEqual((trt.DimsHW(3, 4).h, trt.DimsHW((3, 4)).w), (3, 4))
        with self.assertRaises(ValueError):
            trt.Dims2(1, 2, 3)
        with self.assertRaisesRegex(TypeError, "no type"):
            trt.nptype(trt.fp4)

    def test_what_is_absent_says_so(self):
        logger = Lines()
        config = trt.Builder(logger).create_builder_config()
        for call, name in ((lambda: trt.IInt8EntropyCalibrator2, "tensorrt.IInt8EntropyCalibrator2"),
                           (lambda: config.set_flag(trt.BuilderFlag.WEIGHT_STREAMING), "BuilderFlag.WEIGHT_STREAMING"),
                           (lambda: setattr(config, "int8_calibrator", 1), "IBuilderConfig.int8_calibrator"),
                           (lambda: config.set_memory_pool_limit(trt.MemoryPoolType.DLA_LOCAL_DRAM, 1), "DLA_LOCAL_DRAM")):
            with self.assertRaisesRegex(NotImplementedError, name + ".* is not supported by lathe.tensorrt"):
                call()
        with self.assertRaises(AttributeError):
            trt.no_such_name
        with self.assertRaises(AttributeError):
            config.no_such_option = 1


class Table(unittest.TestCase):
    """docs/tensorrt.md tells the truth."""

    def rows(self):
        page = pathlib.Path(__file__).resolve().parents[3] / "docs/tensorrt.md"
        for line in page.read_text().splitlines():
            cells = [c.strip() for c in line.split("|")]
            if len(cells) > 3 and cells[2] in ("same", "differs", "absent"):
                for name in cells[1].replace("`", "").split(", "):
                    yield name, cells[2]

    def test_what_is_there_is_there(self):
        names = list(self.rows())
        self.assertGreater(len(names), 120)
        objects = {cls: getattr(trt, cls) for cls in ("IBuilderConfig", "IExecutionContext", "ICudaEngine")}
        for name, state in names:
            owner, _, member = name.rpartition(".")
            with self.subTest(name):
                if state != "absent":
                    found = getattr(objects.get(owner) or getattr(trt, owner), member, None) if owner else getattr(trt, name)
                    self.assertTrue(found is not None or owner == "Builder", name)
                    if owner == "BuilderFlag":
                        trt.Builder(Lines()).create_builder_config().set_flag(found)
                elif owner == "BuilderFlag":
                    with self.assertRaises(NotImplementedError):
                        trt.Builder(Lines()).create_builder_config().set_flag(getattr(trt.BuilderFlag, member))
                elif not owner:
                    with self.assertRaises(NotImplementedError):
                        getattr(trt, name)


if __name__ == "__main__":
    unittest.main(argv=["tensorrt"], verbosity=1)
