#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package on a GPU: engines called with torch's CUDA tensors, on torch's streams, without copies; what a call costs; a plugin
with CUDA code beside its code for CPUs; TensorRT's names with addresses of the GPU.

usage: torch_tensors.py [PLUGIN.so [ENQUEUE_COST [PROVIDER.so]]]
PLUGIN.so: examples/plugin/swish_cuda.cu, compiled; without it that part is skipped. ENQUEUE_COST: the program tests/gpu/enqueue_cost.
PROVIDER.so: build/liblathe_onnxruntime.so.
Prints a line and ends with 0 where the package, torch or a GPU is missing."""
import contextlib
import gc
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import tiny_model as onnx  # noqa: E402

try:
    import torch

    import lathe
    import lathe.tensorrt as trt
except ImportError as error:
    sys.exit(print(f"skipped: {error}"))
if not torch.cuda.is_available():
    sys.exit(print("skipped: torch sees no GPU"))

FAILED = []


def check(condition, what):
    print(f"  {'ok' if condition else 'FAILED':7} {what}", flush=True)
    if not condition:
        FAILED.append(what)


@contextlib.contextmanager
def part(name):
    """A part of this script; an exception in it is a failure, and the next part goes on."""
    print(name, flush=True)
    try:
        yield
    except Exception as error:  # noqa: BLE001
        check(False, f"{name}: {type(error).__name__}: {error}")


def network(rows=64, columns=64):
    """y = Softmax(Relu(x @ w + b)), rows dynamic."""
    rng = np.random.default_rng(3)
    w, b = rng.standard_normal((columns, columns), np.float32), rng.standard_normal(columns).astype(np.float32)
    net = lathe.NetworkBuilder("layers")
    x = net.input("x", "float32", [-1, columns], ["rows"])
    y = net.activation(lathe.Activation.RELU, net.elementwise(lathe.Elementwise.SUM, net.matrix_multiply(x, w), b))
    net.output(net.softmax(y, 1), "y")
    engine = lathe.compile(net, {"x": ((1, columns), (rows, columns), (4 * rows, columns))}, level=0, device="0", progress=False)
    w, b = torch.from_numpy(w).cuda(), torch.from_numpy(b).cuda()
    return engine, lambda x: torch.softmax(torch.relu(x.double() @ w.double() + b.double()), 1).float()


def close(a, b, limit=5e-3):
    return a.shape == b.shape and float((a - b).norm() / (b.norm() + 1e-12)) < limit


def tensors():
    engine, expected = network()
    check(not engine.uses_host_memory, "the engine is on the GPU")
    for rows in (1, 64, 200):
        x = torch.randn(rows, 64, device="cuda")
        y = engine(x)
        check(y.is_cuda and close(y, expected(x)), f"{rows} rows: a result on the GPU that is right")
    x = torch.randn(64, 64, device="cuda")
    out = torch.empty(64, 64, device="cuda")
    check(engine(x, out=out) is out and close(out, expected(x)), "out= is written")
    context = lathe.ExecutionContext(engine)
    context.bind_input_address("x", (64, 64), x.data_ptr())
    context.bind_output_address("y", out.data_ptr(), out.nbytes)
    check(context.tensor_address("x") == x.data_ptr() and context.tensor_address("y") == out.data_ptr(), "addresses are torch's")

    # No copies: what torch's allocator and the driver have in use does not grow by a copy of the input in a call.
    big = torch.randn(200, 64, device="cuda")
    for _ in range(4):  # CUDA graphs are recorded for these addresses
        engine(big)
    torch.cuda.synchronize()
    before = torch.cuda.mem_get_info()[0]
    peak = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    engine(big)
    torch.cuda.synchronize()
    grown = torch.cuda.max_memory_allocated() - peak
    check(torch.cuda.mem_get_info()[0] == before and grown <= big.nbytes + 512, f"a call takes the result's memory alone ({grown} bytes)")

    host = x.cpu().numpy()
    y = engine(host)
    check(isinstance(y, np.ndarray) and close(torch.from_numpy(y).cuda(), expected(x)), "arrays of numpy are copied there and back")
    strided = torch.randn(64, 64, device="cuda").t()
    check(close(engine(strided), expected(strided)), "a strided tensor")
    for name, call, words in (("another type", lambda: engine(x.double()), "float64 instead of float32"),
                              ("rows outside of the profile", lambda: engine(torch.zeros(500, 64, device="cuda")), "500"),
                              ("host memory for the result", lambda: engine(x, out=torch.empty(64, 64)), "no contiguous array of torch"),
                              ("a short result", lambda: engine(x, out=torch.empty(4, 64, device="cuda")), "too small")):
        try:
            call()
            check(False, f"{name} is refused")
        except lathe.InputError as error:
            check(words in str(error), f"{name} is refused: {error}")
    check(close(engine(x), expected(x)), "nothing is broken behind errors")


def streams():
    """Runs follow the current stream, and a context that is used on two streams is not used on both at a time."""
    engine, expected = network()
    x = torch.randn(64, 64, device="cuda")
    side, other = torch.cuda.Stream(), torch.cuda.Stream()
    kept = [engine(x) for _ in range(8)]  # results in other memory each: the graph that such runs share is there
    torch.cuda.synchronize()
    del kept
    with torch.cuda.stream(side):
        late = torch.zeros(64, 64, device="cuda")
        torch.cuda._sleep(40_000_000)  # some 20 ms of the stream's time
        late.copy_(x)
        begin = time.perf_counter()
        y = engine(late)
        took = time.perf_counter() - begin
        is_busy = not side.query()
    side.synchronize()
    check(took < 0.01 and is_busy, f"a call returns before the stream gets to it ({took * 1e6:.0f} us)")
    check(close(y, expected(x)), "the run comes behind what the stream had")
    with torch.cuda.stream(side):
        torch.cuda._sleep(40_000_000)
        a = engine(x)
    with torch.cuda.stream(other):
        b = engine(x + 1)  # the same context: it waits for the run on the other stream
    torch.cuda.synchronize()
    check(close(a, expected(x)) and close(b, expected(x + 1)), "two streams")
    results = []
    for i in range(200):
        with torch.cuda.stream((side, other)[i % 2]):
            value = torch.full((64, 64), float(i % 7), device="cuda")
            results.append((i, value, engine(value)))
    torch.cuda.synchronize()
    check(all(close(y, expected(v)) for _, v, y in results), "200 runs on two streams in turn")
    reference = x @ x.t()
    with torch.cuda.stream(side):
        y = torch.softmax(engine(x) @ engine(x).t(), 1)
    side.synchronize()
    check(bool(torch.isfinite(y).all()) and reference.shape == y.shape, "torch's operators read the results")


def median_us(call, count=3000, warm=300):
    times = []
    for i in range(warm + count):
        begin = time.perf_counter_ns()
        call()
        if i >= warm:
            times.append((time.perf_counter_ns() - begin) / 1000)
        if i % 64 == 0:
            torch.cuda.synchronize()
    return statistics.median(times)


def costs(enqueue_cost):
    """What a call costs the host above the engine's own launch, which is measured as the same launch by torch: a CUDA graph of one node."""
    net = lathe.NetworkBuilder("copy")
    net.output(net.unary(lathe.Unary.NEG, net.input("x", "float32", [16])), "y")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "copy.onnx")
        net.finish().to_onnx(path)
        engine = lathe.compile(path, level=0, device="0", progress=False)
        x, out = torch.randn(16, device="cuda"), torch.empty(16, device="cuda")
        graph = torch.cuda.CUDAGraph()
        torch.neg(x, out=out), torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            torch.neg(x, out=out)
        gc.disable()
        replay = median_us(graph.replay)
        kernel = median_us(lambda: torch.neg(x, out=out))
        given = median_us(lambda: engine(x, out=out))
        made = median_us(lambda: engine(x))
        gc.enable()
        print(f"  a torch operator {kernel:.2f} us, a replay of a graph {replay:.2f} us, engine(x, out=y) {given:.2f} us, engine(x) {made:.2f} us")
        check(made - replay <= 25, f"engine(x) is {made - replay:.2f} us above a launch (25 allowed)")
        if enqueue_cost is None:
            return print("  skipped: what enqueue() costs in C++ (no enqueue_cost program was given)")
        answer = json.loads(subprocess.run([enqueue_cost, path], check=True, capture_output=True, text=True).stdout)
        print(f"  C++: {answer}")
        check(answer["enqueue_us"] - answer["graph_launch_us"] <= 5,
              f"C++ enqueue() is {answer['enqueue_us'] - answer['graph_launch_us']:.2f} us above a launch (5 allowed)")


def swish_model():
    node = onnx.node("Swish", "swish", ["x"], ["y"], beta=0.5, plugin_namespace="example", plugin_version="1")
    graph = (onnx.field(1, node) + onnx.field(2, "swish") + onnx.field(11, onnx.value_info("x", ("rows", 1000)))
             + onnx.field(12, onnx.value_info("y", ("rows", 1000))))
    return onnx.field(1, 8) + onnx.field(7, graph) + onnx.field(8, onnx.field(2, 17))


def plugin(library):
    registry = lathe.PluginRegistry()
    registry.load(str(library))
    shapes = {"x": ((1, 1000), (8, 1000), (64, 1000))}
    on_gpu = lathe.compile(swish_model(), shapes, level=1, device="0", plugins=registry, progress=False)
    on_cpu = lathe.compile(swish_model(), shapes, level=0, plugins=registry, progress=False)
    check([layer["type"] for layer in on_gpu.layers()] == ["PluginV3"], f"the layer is the plugin: {on_gpu.layers()[0]['tactic']}")
    for rows in (1, 8, 64):
        x = torch.randn(rows, 1000, device="cuda")
        results = [on_gpu(x) for _ in range(4)]  # the third is the replay of a CUDA graph
        expected = torch.from_numpy(on_cpu(x.cpu().numpy())).cuda()
        exact = (x.double() / (1 + torch.exp(-0.5 * x.double()))).float()
        check(all(close(y, expected, 1e-6) and close(y, exact, 1e-6) for y in results), f"{rows} rows: as the plugin's code for CPUs")

    class Cube(lathe.Plugin):
        def infer(self, inputs):
            return [inputs[0]]

        def run(self, inputs, outputs):
            outputs[0][...] = inputs[0] ** 3

    registry.add(Cube)
    net = lathe.NetworkBuilder("cube")
    net.use_plugins(registry)
    net.output(net.op("Cube", [net.unary(lathe.Unary.NEG, net.input("x", "float32", [4, 4]))]), "y")
    engine = lathe.compile(net, level=0, device="0", plugins=registry, progress=False)
    x = torch.randn(4, 4, device="cuda")
    check(close(engine(x), -(x ** 3), 1e-5), "a plugin of Python runs on the host between copies")


class Lines(trt.ILogger):
    def __init__(self):
        trt.ILogger.__init__(self)

    def log(self, severity, msg):
        if severity <= trt.Logger.ERROR:
            print("   ", msg)


def tensorrt_names():
    logger = Lines()
    builder = trt.Builder(logger, device="0")
    net, config = builder.create_network(), builder.create_builder_config()
    config.builder_optimization_level = 0
    layer = net.add_activation(net.add_input("x", trt.float32, (-1, 32)), trt.ActivationType.TANH)
    layer.get_output(0).name = "y"
    net.mark_output(layer.get_output(0))
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1, 32), (8, 32), (16, 32))
    config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(net, config)
    engine = trt.Runtime(logger, device="0").deserialize_cuda_engine(plan)
    context = engine.create_execution_context()
    x, y = torch.randn(8, 32, device="cuda"), torch.empty(8, 32, device="cuda")
    context.set_input_shape("x", (8, 32))
    context.set_tensor_address("x", x.data_ptr())
    context.set_tensor_address("y", y.data_ptr())
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    check(context.execute_async_v3(stream.cuda_stream), "execute_async_v3 on a stream of torch's")
    stream.synchronize()
    check(close(y, torch.tanh(x)), "the result is right")
    y.zero_()
    check(context.execute_v2([x.data_ptr(), y.data_ptr()]) and close(y, torch.tanh(x)), "execute_v2")


def memory():
    """Activations in a tensor of torch's; a listener sees what lies between layers."""
    net = lathe.NetworkBuilder("deep")
    v = net.input("x", "float32", [64, 64])
    weights = [np.random.default_rng(i).standard_normal((64, 64), np.float32) / 8 for i in range(4)]
    for w in weights:
        v = net.activation(lathe.Activation.TANH, net.matrix_multiply(v, w))
    net.output(v, "y")
    engine = lathe.compile(net, level=0, device="0", progress=False)

    def expected(x):
        for w in weights:
            x = torch.tanh(x.double() @ torch.from_numpy(w).cuda().double())
        return x.float()

    x, y = torch.randn(64, 64, device="cuda"), torch.empty(64, 64, device="cuda")
    context = lathe.ExecutionContext(engine)
    need = context.memory_bytes
    room = torch.zeros(max(need, 1) + 256, dtype=torch.uint8, device="cuda")
    start = -room.data_ptr() % 256
    context.set_memory(room.data_ptr() + start, need)
    context.bind_input_address("x", (64, 64), x.data_ptr())
    context.bind_output_address("y", y.data_ptr(), y.nbytes)
    for _ in range(3):
        context.execute()
    check(close(y, expected(x)) and need > 0 and bool(room.any()), f"{need} bytes of activations in torch's memory")
    seen = {}
    context.set_debug_listener(lambda name, values: seen.__setitem__(name, values))
    context.execute()
    check(list(seen) == context.debug_tensors() and close(torch.from_numpy(seen["y"]).cuda(), expected(x)), f"a listener saw {list(seen)}")


def provider(library):
    """ONNX Runtime's sessions with engines on the GPU, which copy."""
    try:
        import onnxruntime
        devices_of = onnxruntime.get_ep_devices
    except (ImportError, AttributeError):
        return print("  skipped: no ONNX Runtime with plugin providers (1.23 or newer)")
    if library is None or not os.path.exists(library):
        return print("  skipped: no execution provider was given")
    onnxruntime.register_execution_provider_library("lathe", os.path.abspath(library))
    devices = [d for d in devices_of() if d.ep_name == "LatheExecutionProvider"]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        onnx.write(path, size=32)
        results = []
        for device in ("cpu", "0"):
            options = onnxruntime.SessionOptions()
            options.add_provider_for_devices(devices, {"optimization_level": "0", "device": device})
            session = onnxruntime.InferenceSession(path, options, enable_fallback=0)
            results.append([session.run(None, {"input": np.full((n, 3, 32, 32), 0.25 * n, np.float32)})[0] for n in (4, 1, 3, 4)])
    check(all(close(torch.from_numpy(a), torch.from_numpy(b)) for a, b in zip(*results)), f"ONNX Runtime {onnxruntime.__version__}: the GPU's results are the CPU's")


def main():
    library = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else None
    enqueue_cost = sys.argv[2] if len(sys.argv) > 2 else None
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, lathe {lathe.__version__}")
    for name, body in (("tensors", tensors), ("streams", streams), ("memory", memory), ("TensorRT's names", tensorrt_names),
                       ("costs", lambda: costs(enqueue_cost))):
        with part(name):
            body()
    with part("ONNX Runtime"):
        provider(sys.argv[3] if len(sys.argv) > 3 else None)
    if library is None or not library.exists():
        print("skipped: the plugin with CUDA code (no library was given)")
    else:
        with part("plugin"):
            plugin(library)
    print(f"{len(FAILED)} checks failed" if FAILED else "all checks passed")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
