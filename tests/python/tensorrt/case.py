# SPDX-License-Identifier: Apache-2.0
"""What the checks share: a logger that remembers, buffers on the host, and a case with a network to fill."""
import unittest

import numpy as np

import lathe.tensorrt as trt

RNG = np.random.default_rng(7)


class Lines(trt.ILogger):
    def __init__(self):
        trt.ILogger.__init__(self)
        self.lines = []

    def log(self, severity, msg):
        self.lines.append((severity, msg))

    def errors(self):
        return [m for s, m in self.lines if s == trt.Logger.ERROR]


class HostBuffers:
    """An array of host memory for each tensor of an engine."""

    def __init__(self, engine, context, inputs):
        self.arrays = {}
        for name in engine:
            if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
                self.arrays[name] = np.ascontiguousarray(inputs[name], trt.nptype(engine.get_tensor_dtype(name)))
                assert context.set_input_shape(name, self.arrays[name].shape)
        for name in engine:
            if engine.get_tensor_mode(name) == trt.TensorIOMode.OUTPUT:
                shape = context.get_tensor_shape(name)
                assert -1 not in shape
                self.arrays[name] = np.empty(shape, trt.nptype(engine.get_tensor_dtype(name)))
            assert context.set_tensor_address(name, self.arrays[name].ctypes.data)


def infer(engine, **inputs):
    context = engine.create_execution_context()
    buffers = HostBuffers(engine, context, inputs)
    assert context.execute_async_v3(stream_handle=0)
    return {n: a for n, a in buffers.arrays.items() if n not in inputs}


class Case(unittest.TestCase):
    def setUp(self):
        self.logger = Lines()
        self.builder = trt.Builder(self.logger, threads=1)
        self.network = self.builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
        self.config = self.builder.create_builder_config()
        self.config.builder_optimization_level = 0

    def engine(self):
        plan = self.builder.build_serialized_network(self.network, self.config)
        self.assertIsNotNone(plan, self.logger.errors())
        with trt.Runtime(self.logger, threads=1) as runtime:
            return runtime.deserialize_cuda_engine(plan)

    def result(self, tensor, **inputs):
        tensor.name = "result"
        self.network.mark_output(tensor)
        return infer(self.engine(), **inputs)["result"]

    def input(self, *shape, dtype=trt.float32, name="x"):
        return self.network.add_input(name, dtype, shape)

    def constant(self, values, dtype=np.float32):
        values = np.array(values, dtype)
        return self.network.add_constant(values.shape, values).get_output(0)
