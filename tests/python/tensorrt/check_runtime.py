# SPDX-License-Identifier: Apache-2.0
"""Engines and contexts under TensorRT's names: memory, streams of bytes, debug tensors, profiles, settings."""
import pathlib
import sys
import tempfile
import unittest

import numpy as np

import lathe.tensorrt as trt

from case import RNG, Case, HostBuffers, infer

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "cli"))
import tiny_model  # noqa: E402


def fields(data):
    """(number, bytes of the value) of each field of a protobuf message."""
    def varint(at):
        value = shift = 0
        while True:
            value, shift, at = value | (data[at] & 0x7F) << shift, shift + 7, at + 1
            if data[at - 1] < 0x80:
                return value, at
    at = 0
    while at < len(data):
        key, at = varint(at)
        length, at = varint(at) if key & 7 == 2 else (varint(at)[1] - at if key & 7 == 0 else {1: 8, 5: 4}[key & 7], at)
        yield key >> 3, data[at:at + length]
        at += length


class Contexts(Case):
    """Two softmaxes with a transposition between them: activations of 8 rows of 64 numbers."""

    def softmaxes(self, rows=8):
        x = self.input(-1, 64)
        first = self.network.add_softmax(x)
        first.axes = 2
        first.get_output(0).name = "first"
        turned = self.network.add_shuffle(first.get_output(0))
        turned.first_transpose = (1, 0)
        second = self.network.add_softmax(turned.get_output(0))
        second.axes = 2
        second.get_output(0).name = "y"
        self.network.mark_output(second.get_output(0))
        profile = self.builder.create_optimization_profile()
        profile.set_shape("x", (1, 64), (2, 64), (rows, 64))
        self.config.add_optimization_profile(profile)
        return first.get_output(0)

    def test_memory_of_the_user(self):
        self.softmaxes()
        engine, x = self.engine(), RNG.random((8, 64), np.float32)
        expected = infer(engine, x=x)["y"]
        settings = engine.create_runtime_config()
        settings.set_execution_context_allocation_strategy(trt.ExecutionContextAllocationStrategy.USER_MANAGED)
        self.assertEqual(settings.get_execution_context_allocation_strategy(), trt.ExecutionContextAllocationStrategy.USER_MANAGED)
        for context in (engine.create_execution_context(trt.ExecutionContextAllocationStrategy.USER_MANAGED),
                        engine.create_execution_context_without_device_memory(), engine.create_execution_context(settings)):
            buffers = HostBuffers(engine, context, {"x": x})
            self.assertFalse(context.execute_async_v3(0))
            self.assertIn("it has no memory", self.logger.errors()[-1])
            need = context.update_device_memory_size_for_shapes()
            self.assertEqual(need, engine.get_device_memory_size_for_profile_v2(0))
            memory = np.full(need + 256, 77, np.uint8)
            start = -memory.ctypes.data % 256
            self.assertFalse(context.set_device_memory(memory.ctypes.data + start, need - 1))
            self.assertTrue(context.set_device_memory(memory.ctypes.data + start, need))
            self.assertTrue(context.execute_async_v3(0), self.logger.errors())
            np.testing.assert_array_equal(buffers.arrays["y"], expected)
            self.assertTrue((memory[start:start + need] != 77).any())

    def test_memory_for_all_profiles(self):
        self.softmaxes()
        profile = self.builder.create_optimization_profile()
        profile.set_shape("x", (1, 64), (2, 64), (256, 64))
        self.config.add_optimization_profile(profile)
        engine, x = self.engine(), RNG.random((8, 64), np.float32)
        small, large = (engine.get_device_memory_size_for_profile_v2(p) for p in (0, 1))
        self.assertGreater(large, small)
        strategies = trt.ExecutionContextAllocationStrategy
        for strategy, before in ((strategies.STATIC, large), (strategies.ON_PROFILE_CHANGE, small)):
            context = engine.create_execution_context(strategy)
            self.assertEqual(context._context.device_bytes, before)
            buffers = HostBuffers(engine, context, {"x": x})
            self.assertTrue(context.execute_async_v3(0), self.logger.errors())
            first = buffers.arrays["y"].copy()
            self.assertTrue(context.set_optimization_profile_async(1, 0))
            buffers = HostBuffers(engine, context, {"x": x})
            self.assertTrue(context.execute_async_v3(0), self.logger.errors())
            np.testing.assert_array_equal(buffers.arrays["y"], first)
            self.assertGreaterEqual(context._context.device_bytes, large)

    def test_debug_tensors(self):
        first = self.softmaxes()
        self.assertTrue(self.network.mark_debug(first))
        self.assertTrue(self.network.is_debug_tensor(first))
        engine, x = self.engine(), RNG.random((2, 64), np.float32)
        self.assertEqual(list(engine), ["x", "y"])  # a marked tensor is no output
        self.assertTrue(engine.is_debug_tensor("first"))
        self.assertFalse(engine.is_debug_tensor("y"))

        class Listener(trt.IDebugListener):
            seen, goes_on = {}, True

            def process_debug_tensor(self, addr, location, type, shape, name, stream):  # noqa: A002
                count = trt.volume(shape)
                self.seen[name] = np.frombuffer((np.ctypeslib.ctypes.c_float * count).from_address(addr), np.float32).reshape(shape).copy()
                return self.goes_on

        context, listener = engine.create_execution_context(), Listener()
        buffers = HostBuffers(engine, context, {"x": x})
        self.assertTrue(context.set_debug_listener(listener))
        self.assertIs(context.get_debug_listener(), listener)
        self.assertTrue(context.execute_async_v3(0), self.logger.errors())
        self.assertEqual(listener.seen, {})  # off until it is switched on
        self.assertTrue(context.set_tensor_debug_state("first", True))
        self.assertTrue(context.get_debug_state("first"))
        self.assertTrue(context.execute_async_v3(0), self.logger.errors())
        powers = np.exp(x - x.max(1, keepdims=True))
        np.testing.assert_allclose(listener.seen["first"], powers / powers.sum(1, keepdims=True), rtol=1e-5)
        self.assertFalse(context.set_tensor_debug_state("y", True))
        self.assertIn("was not marked", self.logger.errors()[-1])
        listener.goes_on = False
        self.assertFalse(context.execute_async_v3(0))
        self.assertIn("the debug listener ended the run", self.logger.errors()[-1])
        listener.goes_on = True
        listener.seen.clear()
        context.set_all_tensors_debug_state(False)
        self.assertTrue(context.execute_async_v3(0))
        self.assertEqual(listener.seen, {})
        context.set_unfused_tensors_debug_state(True)
        self.assertTrue(context.execute_async_v3(0))
        self.assertIn("y", listener.seen)
        np.testing.assert_array_equal(listener.seen["y"], buffers.arrays["y"])

    def test_belongings(self):
        self.softmaxes()
        engine = self.engine()
        context = engine.create_execution_context()

        class Recorder(trt.IErrorRecorder):
            errors = []

            def report_error(self, code, desc):
                self.errors.append((code, desc))

        context.name, context.error_recorder = "mine", Recorder()
        self.assertEqual((context.name, context.engine), ("mine", engine))
        self.assertFalse(context.set_input_shape("x", (100, 64)))
        self.assertEqual(Recorder.errors[0][0], trt.ErrorCodeTRT.INVALID_ARGUMENT)
        self.assertIn("outside of its optimization profile", Recorder.errors[0][1])
        self.assertEqual(engine.num_aux_streams, 0)

    def test_times_are_reported_when_asked(self):
        self.softmaxes()
        engine = self.engine()

        class Times(trt.IProfiler):
            seen = []

            def report_layer_time(self, layer_name, ms):
                self.seen.append(layer_name)

        context = engine.create_execution_context()
        HostBuffers_alive = HostBuffers(engine, context, {"x": np.zeros((2, 64))})
        self.assertFalse(context.report_to_profiler())
        context.profiler, context.enqueue_emits_profile = Times(), False
        self.assertTrue(context.execute_async_v3(0), self.logger.errors())
        self.assertEqual(Times.seen, [])
        self.assertTrue(context.report_to_profiler())
        self.assertEqual(len(Times.seen), engine.num_layers)
        del HostBuffers_alive

    def test_shapes_strides_and_sizes(self):
        self.softmaxes()
        engine = self.engine()
        context = engine.create_execution_context()
        self.assertFalse(context.all_binding_shapes_specified)
        self.assertEqual(context.infer_shapes(), ["x"])
        self.assertEqual(tuple(context.get_tensor_shape("y")), (64, -1))
        self.assertTrue(context.set_input_shape("x", (2, 64)))
        self.assertTrue(context.all_binding_shapes_specified)
        self.assertEqual(context.infer_shapes(), [])
        self.assertEqual((tuple(context.get_tensor_shape("y")), tuple(context.get_tensor_strides("y"))), ((64, 2), (2, 1)))
        self.assertEqual(context.get_max_output_size("y"), 64 * 2 * 4)


class Plans(Case):
    def product(self):
        values = RNG.random((64, 64), np.float32)
        layer = self.network.add_matrix_multiply(self.input(2, 64), trt.MatrixOperation.NONE, self.constant(values), trt.MatrixOperation.NONE)
        layer.get_output(0).name = "y"
        self.network.mark_output(layer.get_output(0))
        return values

    def test_writers_and_readers(self):
        values = self.product()

        class Writer(trt.IStreamWriter):
            def __init__(self, room):
                self.parts, self.room = [], room

            def write(self, data):
                self.parts.append(bytes(data))
                return len(data) if sum(map(len, self.parts)) <= self.room else 0

        writer = Writer(1 << 30)
        self.assertTrue(self.builder.build_serialized_network_to_stream(self.network, self.config, writer))
        self.assertGreater(len(writer.parts), 1)
        self.assertFalse(self.builder.build_serialized_network_to_stream(self.network, self.config, Writer(100)))
        self.assertIn("did not take a piece", self.logger.errors()[-1])

        class Reader(trt.IStreamReaderV2):
            def __init__(self, data):
                self.data, self.at = data, 0

            def read(self, count, stream):
                self.at += min(count, 1000)
                return self.data[self.at - min(count, 1000):self.at]

            def seek(self, offset, where):
                self.at = offset

        class OldReader(trt.IStreamReader):
            def __init__(self, data):
                self.parts = iter([data[:100], data[100:], b""])

            def read(self, count):
                return next(self.parts)

        plan, x = b"".join(writer.parts), RNG.random((2, 64), np.float32)
        for reader in (Reader(plan), OldReader(plan)):
            engine = trt.Runtime(self.logger, threads=1).deserialize_cuda_engine(reader)
            np.testing.assert_allclose(infer(engine, x=x)["y"], x @ values, rtol=1e-4)

    def test_without_weights(self):
        self.product()
        engine = self.engine()
        config = engine.create_serialization_config()
        self.assertEqual(len(engine.serialize_with_config(config)), len(engine.serialize()))
        self.assertTrue(config.set_flag(trt.SerializationFlag.EXCLUDE_WEIGHTS))
        self.assertTrue(config.get_flag(trt.SerializationFlag.EXCLUDE_WEIGHTS))
        self.assertLessEqual(len(engine.serialize_with_config(config)), len(engine.serialize()) - 64 * 64 * 4)
        config.clear_flag(trt.SerializationFlag.EXCLUDE_WEIGHTS)
        self.assertFalse(config.get_flag(trt.SerializationFlag.EXCLUDE_WEIGHTS))

    def test_facts_of_an_engine(self):
        self.product()
        self.network.name = "product"
        engine = self.engine()
        self.assertEqual((engine.num_layers > 0, engine.refittable, engine.has_implicit_batch_dimension), (True, True, False))
        self.assertEqual((engine.get_tensor_mode("x"), engine.get_tensor_mode("y"), engine.get_tensor_mode("z")),
                         (trt.TensorIOMode.INPUT, trt.TensorIOMode.OUTPUT, trt.TensorIOMode.NONE))
        self.assertEqual(engine.get_tensor_location("x"), trt.TensorLocation.DEVICE)
        self.assertEqual(engine.engine_capability, trt.EngineCapability.STANDARD)

    def test_how_engines_were_built(self):
        self.product()
        self.config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
        everything = self.config.get_tactic_sources()
        without = everything & ~(1 << trt.TacticSource.CUDNN)
        self.assertTrue(self.config.set_tactic_sources(without))
        engine = self.engine()  # from a plan
        self.assertEqual((engine.tactic_sources, engine.profiling_verbosity), (without, trt.ProfilingVerbosity.DETAILED))
        self.assertIn("without CudnnConvolution", engine._engine.build_info["settings"].split(", "))
        self.config.reset()
        engine = self.engine()
        self.assertEqual((engine.tactic_sources, engine.profiling_verbosity), (everything, trt.ProfilingVerbosity.LAYER_NAMES_ONLY))

    def test_timing_caches_are_edited(self):
        self.product()
        self.config.builder_optimization_level = 3
        self.config.set_flag(trt.BuilderFlag.EDITABLE_TIMING_CACHE)
        self.config.set_timing_cache(self.config.create_timing_cache(b""), False)
        self.engine()
        cache = self.config.create_timing_cache(self.config.get_timing_cache().serialize())  # of another process
        self.config.set_timing_cache(cache, False)
        key = max(cache.queryKeys(), key=lambda k: len(cache.query_all(k)))
        self.assertEqual(trt.TimingCacheKey.parse(str(key)), key)
        best, rivals = cache.query(key), cache.query_all(key)
        self.assertGreater(len(rivals), 1)
        self.assertIn(best, rivals)
        other = next(r for r in rivals if r != best)
        self.assertTrue(cache.update(key, trt.TimingCacheValue(other.tactic_hash, best.timing_msec / 1000)))
        self.assertEqual(cache.query(key).tactic_hash, other.tactic_hash)
        self.assertFalse(cache.update(key, trt.TimingCacheValue(12345, 1.0)))
        name = next(e.about.split(" | ")[0] for e in cache._cache.entries() if e.tactic == other.tactic_hash)
        self.assertIn(name, [layer["tactic"] for layer in self.engine()._engine.layers()])

    def test_configurations_begin_again(self):
        self.config.set_flag(trt.BuilderFlag.FP16)
        self.config.builder_optimization_level = 5
        self.config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 100)
        profile = self.builder.create_optimization_profile()
        profile.set_shape("x", (1,), (1,), (1,))
        self.config.add_optimization_profile(profile)
        self.config.reset()
        self.assertEqual((self.config.get_flag(trt.BuilderFlag.FP16), self.config.builder_optimization_level,
                          self.config.get_memory_pool_limit(trt.MemoryPoolType.WORKSPACE), self.config.num_optimization_profiles),
                         (False, 3, 0, 0))


class Parsed(Case):
    def test_tensors_of_nodes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.onnx"
            tiny_model.write(path, size=16, batch=1)
            parser = trt.OnnxParser(self.network, self.logger)
            self.assertTrue(parser.parse_from_file(str(path)), self.logger.errors())
        names = [layer.name for layer in self.network]
        tensor = parser.get_layer_output_tensor(names[0], 0)
        self.assertEqual(tensor.shape[0], 1)
        self.assertIsNone(parser.get_layer_output_tensor("nothing", 0))
        self.network.unmark_output(self.network.get_output(0))
        self.network.mark_output(tensor)
        self.assertEqual(list(self.engine())[1], tensor.name)

    def test_errors_have_codes(self):
        def node(kind, source, result):
            return tiny_model.node(kind, kind.lower() + "_1", [source], [result])

        def model(*nodes, result="b"):
            graph = b"".join(tiny_model.field(1, n) for n in nodes) + tiny_model.field(2, "test")
            graph += tiny_model.field(11, tiny_model.value_info("x", [2, 4])) + tiny_model.field(12, tiny_model.value_info(result, [2, 4]))
            return tiny_model.field(1, 8) + tiny_model.field(7, graph) + tiny_model.field(8, tiny_model.field(2, 17))

        def errors(data):
            parser = trt.OnnxParser(self.network, self.logger)
            self.assertFalse(parser.parse(data))
            found = [parser.get_error(i) for i in range(parser.num_errors)]
            return [(e.code(), e.node_name(), e.node_operator()) for e in found]

        codes = trt.ErrorCode
        self.assertEqual(errors(model(node("Frobnicate", "x", "a"), node("Defrob", "a", "b"))),
                         [(codes.UNSUPPORTED_NODE, "frobnicate_1", "Frobnicate"), (codes.UNSUPPORTED_NODE, "defrob_1", "Defrob")])
        self.assertEqual(errors(model(node("Relu", "x", "b"), result="nobody")), [(codes.INVALID_GRAPH, "", "")])
        self.assertEqual(errors(b"\x07nonsense"), [(codes.MODEL_DESERIALIZE_FAILED, "", "")])
        parser = trt.OnnxParser(self.network, self.logger)
        self.assertFalse(parser.parse_from_file("/nowhere/model.onnx"))
        self.assertEqual(parser.get_error(0).code(), codes.MODEL_DESERIALIZE_FAILED)

    def test_weights_from_memory(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.onnx"
            tiny_model.write(path, size=16, batch=1)
            whole = path.read_bytes()
            tiny_model.write(path, size=16, batch=1, external="weights.bin")
            model = path.read_bytes()  # the convolutions' weights are not in it
        weights = {name: np.array(tiny_model.struct.unpack(f"<{len(data) // 4}f", data), np.float32) for name, data in self.initializers(whole)}
        x = RNG.random((1, 3, 16, 16), np.float32)
        self.assertTrue(trt.OnnxParser(self.network, self.logger).parse(whole), self.logger.errors())
        expected = infer(self.engine(), input=x)["output"]
        self.setUp()
        parser = trt.OnnxParser(self.network, self.logger)
        self.assertFalse(parser.load_initializer("w0", b"", 0))
        self.assertFalse(parser.parse_model_proto())
        self.assertTrue(parser.load_model_proto(model))
        for name, values in weights.items():
            data = values.ctypes.data if name == "w0" else values
            self.assertTrue(parser.load_initializer(name, data, values.nbytes))
        self.assertTrue(parser.parse_model_proto(), self.logger.errors())
        np.testing.assert_array_equal(infer(self.engine(), input=x)["output"], expected)
        weights["w1"] *= 0  # nothing was copied: what is built now sees it
        self.assertFalse(np.array_equal(infer(self.engine(), input=x)["output"], expected))
        parser.load_model_proto(model)
        parser.load_initializer("w0", b"1234", 4)
        self.assertFalse(parser.parse_model_proto())
        self.assertIn("'w0'", self.logger.errors()[-1])
        parser.load_model_proto(model)
        parser.load_initializer("nothing", b"1234", 4)
        self.assertFalse(parser.parse_model_proto())
        self.assertIn("weights were given for 'nothing'", self.logger.errors()[-1])
        parser.load_model_proto(b"\x07nonsense")
        self.assertFalse(parser.parse_model_proto())

    @staticmethod
    def initializers(model):
        graph = next(value for number, value in fields(model) if number == 7)
        for number, tensor in fields(graph):
            if number == 5:
                parts = dict(fields(tensor))
                yield parts[8].decode(), parts[9]

    def test_assertions(self):
        x = self.input(2)
        self.network.mark_output(self.network.add_identity(x).get_output(0))
        self.network.add_assertion(self.constant([True, True], np.bool_), "two is two")
        self.assertIsNotNone(self.builder.build_serialized_network(self.network, self.config))
        self.network.add_assertion(self.constant([True, False], np.bool_), "two is one")
        self.assertIsNone(self.builder.build_serialized_network(self.network, self.config))
        self.assertIn("two is one", self.logger.errors()[-1])

    def test_values_of_profiles(self):
        sizes = self.network.add_input("sizes", trt.int64, (2,))
        filled = self.network.add_shuffle(self.network.add_input("x", trt.float32, (-1,)))
        filled.set_input(1, sizes)
        self.network.mark_output(filled.get_output(0))
        profile = self.builder.create_optimization_profile()
        profile.set_shape("x", (1,), (6,), (64,))
        profile.set_shape_input("sizes", (1, 1), (2, 3), (8, 8))
        self.assertEqual(self.config.add_optimization_profile(profile), 0)
        engine = self.engine()
        self.assertTrue(engine.is_shape_inference_io("sizes"))
        self.assertEqual(engine.get_tensor_profile_values(0, "sizes"), [[1, 1], [2, 3], [8, 8]])
        self.assertEqual(engine.get_tensor_profile_values(0, "x"), [])


if __name__ == "__main__":
    unittest.main(argv=["runtime"], verbosity=1)
