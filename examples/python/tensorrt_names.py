# SPDX-License-Identifier: Apache-2.0
"""A program for TensorRT's Python API, which runs here with one changed import: tensorrt_names.py MODEL.onnx PLAN

Addresses are those of host memory; on a GPU (Builder(logger, device="0")) they would be those of its memory.
"""
import sys

import numpy as np

import lathe.tensorrt as trt


def build(model, logger):
    builder = trt.Builder(logger)
    network = builder.create_network()
    parser = trt.OnnxParser(network, logger)
    if not parser.parse_from_file(model):
        sys.exit("\n".join(str(parser.get_error(i)) for i in range(parser.num_errors)))
    config = builder.create_builder_config()
    config.builder_optimization_level = 1
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 64 << 20)
    profile = builder.create_optimization_profile()
    for i in range(network.num_inputs):
        tensor = network.get_input(i)
        profile.set_shape(tensor.name, *([batch if d < 0 else d for d in tensor.shape] for batch in (1, 4, 8)))
    config.add_optimization_profile(profile)
    return builder.build_serialized_network(network, config)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    logger = trt.Logger(trt.Logger.WARNING)
    plan = build(sys.argv[1], logger)
    with open(sys.argv[2], "wb") as file:
        file.write(plan)
    engine = trt.Runtime(logger).deserialize_cuda_engine(plan)
    context = engine.create_execution_context()
    arrays = {}
    for name in engine:
        if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
            context.set_input_shape(name, [4 if d < 0 else d for d in engine.get_tensor_shape(name)])
        shape = context.get_tensor_shape(name)
        arrays[name] = np.ones(shape, trt.nptype(engine.get_tensor_dtype(name)))
        context.set_tensor_address(name, arrays[name].ctypes.data)
    assert context.execute_async_v3(0)
    for name in engine:
        if engine.get_tensor_mode(name) == trt.TensorIOMode.OUTPUT:
            print(name, arrays[name].shape, arrays[name].ravel()[:4])


if __name__ == "__main__":
    main()
