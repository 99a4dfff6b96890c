#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a peer on demand, in a process of its own, as bench_runner runs Lathe: what a script interleaves run by run.

usage: peer_runner.py ort|openvino MODEL THREADS f32|bf16 NAME:DIMS:FILE...   (raw little-endian files, dims as 1x3x224x224)
Prints "ready" (OpenVINO adds the model's work: operations of the direct algorithm and elements of the weights), then for each line
"N" on standard input runs N times and prints the N times in milliseconds. The CPUs are those that the process may run on:
OpenVINO looks at them once, when it is loaded. ONNX Runtime computes in FP32 whatever the precision says.
"""
import pathlib
import sys
import time

import numpy as np

TYPES = {"float32": np.float32, "float16": np.float16, "int32": np.int32, "int64": np.int64, "bool": np.bool_, "boolean": np.bool_}


def read_inputs(arguments, types):
    inputs = {}
    for argument in arguments:
        name, dims, path = argument.split(":", 2)
        inputs[name] = np.fromfile(pathlib.Path(path), TYPES[types[name]]).reshape([int(d) for d in dims.split("x") if d])
    return inputs


def open_ort(model, arguments, threads, _):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = {"float": "float32"}
    types = {i.name: i.type.removeprefix("tensor(").removesuffix(")") for i in session.get_inputs()}
    inputs = read_inputs(arguments, {name: names.get(type, type) for name, type in types.items()})
    return lambda: session.run(None, inputs), ""


def open_openvino(model, arguments, threads, precision):
    import openvino as ov
    core = ov.Core()
    network = core.read_model(model)
    inputs = read_inputs(arguments, {i.any_name: i.element_type.to_dtype().name for i in network.inputs})
    network.reshape({name: array.shape for name, array in inputs.items()})
    compiled = core.compile_model(network, "CPU", {
        "INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY"})
    request = compiled.create_infer_request()
    return lambda: request.infer(inputs, share_inputs=True), " {:.0f} {:.0f}".format(*work_of(network))


def work_of(network):
    """Operations of the direct algorithm and elements of the weights, of an OpenVINO model with fixed shapes."""
    operations = weights = 0
    for node in network.get_ordered_ops():
        kind = node.get_type_name()
        if kind == "Constant" and node.get_output_element_type(0).is_real():
            weights += np.prod(node.get_output_shape(0), dtype=float)
        elif kind in ("Convolution", "GroupConvolution"):
            taps = node.get_input_shape(1)[1 if kind == "Convolution" else 2:]
            operations += 2 * np.prod(node.get_output_shape(0), dtype=float) * np.prod(taps, dtype=float)
        elif kind == "MatMul":
            rows = node.get_input_shape(0)
            depth = rows[-2] if node.get_attributes()["transpose_a"] else rows[-1]
            operations += 2 * np.prod(node.get_output_shape(0), dtype=float) * depth
    return operations, weights


def main():
    kind, model, threads, precision, *arguments = sys.argv[1:]
    run, work = {"ort": open_ort, "openvino": open_openvino}[kind](model, arguments, int(threads), precision)
    run()
    print("ready" + work, flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            start = time.perf_counter()
            run()
            times.append((time.perf_counter() - start) * 1e3)
        print(" ".join(f"{t:.6f}" for t in times), flush=True)


if __name__ == "__main__":
    main()
