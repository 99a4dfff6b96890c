#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lathe as an execution provider of ONNX Runtime, against its CPU provider. usage: run.py --build build [--all]

--all also runs the larger models of the zoo and each of ONNX's node tests.
"""
import argparse
import collections
import pathlib
import subprocess
import sys
import tempfile
import threading

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

import cases

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests/cli"), str(ROOT / "tests/python")]
import tiny_model  # noqa: E402
from blocks import blocks  # noqa: E402
from harness import Tests, quiet_environment  # noqa: E402

PROVIDER, CPU = "LatheExecutionProvider", "CPUExecutionProvider"
FAST = {"optimization_level": "0", "threads": "1"}


def source(model):
    return str(model) if isinstance(model, (str, pathlib.Path)) else model.SerializeToString()


def session(model, options=FAST, level=None):
    wanted = ort.SessionOptions()
    wanted.log_severity_level = 4
    wanted.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if level is not None:
        wanted.graph_optimization_level = level
    wanted.add_provider_for_devices([d for d in ort.get_ep_devices() if d.ep_name == PROVIDER], options)
    return ort.InferenceSession(source(model), wanted, enable_fallback=0)  # an error is an error, not the CPU provider instead


def reference(model):
    wanted = ort.SessionOptions()
    wanted.log_severity_level, wanted.intra_op_num_threads = 4, 1
    return ort.InferenceSession(source(model), wanted, providers=[CPU])


def partitions(s):
    """Nodes of each of Lathe's partitions, and how many others have."""
    graphs = s.get_provider_graph_assignment_info()
    sizes = [len(g.get_nodes()) for g in graphs]
    return (sorted(size for g, size in zip(graphs, sizes) if g.ep_name == PROVIDER), sum(size for g, size in zip(graphs, sizes) if g.ep_name != PROVIDER))


def difference(got, wanted, tolerance=1e-5):
    """'' when they are the same."""
    if not isinstance(wanted, np.ndarray):
        return "" if got == wanted else f"{got} instead of {wanted}"
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return f"{got.dtype}{got.shape} instead of {wanted.dtype}{wanted.shape}"
    if wanted.dtype.kind != "f":
        return "" if np.array_equal(got, wanted) else f"{got} instead of {wanted}"
    tolerance = max(tolerance, 4e-3 if wanted.dtype == np.float16 else 0)
    got, wanted = got.astype(np.float64), wanted.astype(np.float64)
    return "" if np.allclose(got, wanted, rtol=tolerance, atol=tolerance, equal_nan=True) else f"differs by {np.abs(got - wanted).max()}"


def compare(t, what, s, right, feeds, tolerance=1e-5):
    names = [o.name for o in right.get_outputs()]
    for name, got, wanted in zip(names, s.run(names, feeds), right.run(names, feeds)):
        problem = difference(got, wanted, tolerance)
        t.check(not problem, f"{what}: output '{name}' {problem}")


def message_of(action):
    try:
        action()
    except Exception as error:  # ONNX Runtime has a class for each code of a status
        return f"{type(error).__name__}: {error}"
    return "no error"


def says(t, action, *parts):
    message = message_of(action)
    for part in parts:
        t.check(part in message, f"an error lacks '{part}': {message}")


def check_cases(t):
    for name, (model, runs, mine, others) in cases.CASES.items():
        right = reference(model)
        for level in (ort.GraphOptimizationLevel.ORT_ENABLE_ALL, ort.GraphOptimizationLevel.ORT_DISABLE_ALL):
            s = session(model, level=level)
            sizes, rest = partitions(s)
            # ONNX Runtime may have fused some nodes before it asks.
            t.check((len(sizes), rest) == (len(mine), others), f"{name} at {level}: partitions {sizes}, {rest} nodes elsewhere")
            if level == ort.GraphOptimizationLevel.ORT_DISABLE_ALL:
                t.check(sizes == mine, f"{name}: partitions {sizes} instead of {mine}")
            for i, feeds in enumerate(runs):
                # Half a step may be rounded to either side: 0.02 in the quantized model.
                compare(t, f"{name} at {level}, run {i}", s, right, feeds, 0.021 if name == "quantized" else 1e-5)


def zoo_inputs(s, batch, seed):
    random = np.random.default_rng(seed)
    feeds = {}
    for i in s.get_inputs():
        shape = [batch if d == "batch" else d if isinstance(d, int) else 12 for d in i.shape]
        if "float" in i.type:
            feeds[i.name] = random.standard_normal(shape).astype(np.float32)
        else:
            feeds[i.name] = np.ones(shape, np.int64) if "mask" in i.name else random.integers(0, 1000, shape)
    return feeds


def check_zoo(t, names):
    for name in names:
        t.expect(t.run("zoo", name, program="lathe"), 0)
        path = t.folder / f"{name}.onnx"
        s, right = session(path), reference(path)
        mine, others = partitions(s)
        t.check(len(mine) == 1 and others == 0, f"{name}: partitions {mine}, {others} nodes elsewhere")
        for batch in (2, 1, 3):
            compare(t, f"{name}, batch {batch}", s, right, zoo_inputs(s, batch, batch), 2e-3)
        path.unlink()


def check_memory(t):
    """Results lie in the memory that the caller bound."""
    model = cases.perceptron()
    s, x = session(model), cases.rows(4, 4)
    y = ort.OrtValue.ortvalue_from_numpy(np.full((4, 3), np.nan, np.float32))
    binding = s.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_ortvalue_output("y", y)
    s.run_with_iobinding(binding)
    t.check(difference(y.numpy(), reference(model).run(None, {"x": x})[0]) == "", "a bound output")


def check_external_weights(t):
    model = cases.perceptron()
    right = reference(model)  # before save() moves the weights out of the model
    onnx.save(model, t.folder / "external.onnx", save_as_external_data=True, location="external.bin", size_threshold=0)
    s = session(t.folder / "external.onnx")
    t.check((len(partitions(s)[0]), partitions(s)[1]) == (1, 0), f"external weights: partitions {partitions(s)}")
    compare(t, "external weights", s, right, {"x": cases.rows(2, 4)})


def check_threads(t):
    """Two sessions in two threads each, with shapes that make them build anew."""
    problems = []
    names = ("dynamic_batch", "several_outputs")
    sessions = {name: (session(cases.CASES[name][0]), reference(cases.CASES[name][0])) for name in names}

    def work(name, seed):
        try:
            s, right = sessions[name]
            random = np.random.default_rng(seed)
            for n in random.integers(1, 40, 60):
                feeds = {"x": random.standard_normal((n, 4)).astype(np.float32)}
                problems.extend(filter(None, map(difference, s.run(None, feeds), right.run(None, feeds))))
        except Exception as error:
            problems.append(str(error))
    threads = [threading.Thread(target=work, args=(name, seed)) for seed, name in enumerate(2 * names)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    t.check(not problems, f"threads: {problems[:3]}")


def check_errors(t):
    value, node, floats = cases.value, cases.node, cases.FLOAT
    add = cases.model([node("Add", "a b", "y")], [value("a", floats, ["n", 4]), value("b", floats, ["m", 4])], [value("y", floats, ["k", 4])])
    s, right = session(add), reference(add)
    good, bad = {"a": cases.rows(2, 4), "b": cases.rows(2, 4)}, {"a": cases.rows(2, 4), "b": cases.rows(3, 4)}
    for _ in range(2):  # the session goes on after an error
        compare(t, "after an error", s, right, good)
        says(t, lambda: s.run(None, bad), "InvalidArgument", "LatheExecutionProvider", "2", "3")
    static = cases.model([node("Reshape", "x shape", "y")], [value("x", floats, [6]), value("shape", cases.INT64, [2])], [value("y", floats, ["a", "b"])])
    s = session(static)
    says(t, lambda: s.run(None, {"x": cases.rows(6), "shape": np.array([4, 4])}), "InvalidArgument", "Reshape")
    compare(t, "after a wrong Reshape", s, reference(static), {"x": cases.rows(6), "shape": np.array([2, 3])})


def check_options(t):
    model = cases.perceptron()
    says(t, lambda: session(model, {"fp17": "1"}), "INVALID_ARGUMENT", "the Lathe provider has no such option", "'fp17'", "timing_cache_file")
    says(t, lambda: session(model, {"fp16": "maybe"}), "INVALID_ARGUMENT", "'maybe'", "option 'fp16'", "1 or 0")
    says(t, lambda: session(model, {"optimization_level": "6"}), "'6'", "a number from 0 to 5")
    says(t, lambda: session(model, {"threads": "two"}), "'two'", "option 'threads'")
    says(t, lambda: session(model, {"device": "toaster"}), "toaster")
    compare(t, "on the CPU by name", session(model, {"device": "cpu", "optimization_level": "0"}), reference(model), {"x": cases.rows(7, 4)})
    (t.folder / "damaged.cache").write_text("no cache")
    says(t, lambda: session(model, {"timing_cache_file": str(t.folder / "damaged.cache")}), "damaged.cache")
    cache = t.folder / "t.cache"
    for _ in range(2):
        s = session(model, {"optimization_level": "1", "threads": "1", "timing_cache_file": str(cache)})
        compare(t, "with a timing cache", s, reference(model), {"x": cases.rows(7, 4)})
    t.check(cache.exists() and cache.stat().st_size > 0, "no timing cache was written")
    for flag in ("fp16", "bf16", "best"):
        s = session(model, {flag: "True", "optimization_level": "1", "threads": "2"})
        compare(t, flag, s, reference(model), {"x": cases.rows(7, 4)}, 3e-2)


def check_node_tests(t):
    """ONNX's node tests, as far as ONNX Runtime's own provider runs them."""
    from onnx.backend.test.case.node import collect_testcases
    count = collections.Counter()
    for case in collect_testcases():
        feeds = {i.name: numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else v
                 for i, v in zip(case.model.graph.input, case.data_sets[0][0]) if v is not None}
        if message_of(lambda: reference(case.model).run(None, feeds)) != "no error":
            count["are not for ONNX Runtime"] += 1
            continue
        s = session(case.model)
        if not partitions(s)[0]:
            count["left to others"] += 1
            continue
        count["run"] += 1
        for got, wanted in zip(s.run(None, feeds), case.data_sets[0][1]):
            wanted = numpy_helper.to_array(wanted) if isinstance(wanted, onnx.TensorProto) else wanted
            if isinstance(wanted, np.ndarray) and wanted.dtype.kind in "fiub":
                problem = difference(got, wanted, 2e-3)
                t.check(not problem, f"{case.name}: {problem}")
    t.check(count["run"] > 1250, f"only {count['run']} of ONNX's node tests ran")
    print("ONNX's node tests:", ", ".join(f"{n} {what}" for what, n in count.items()))


def check_page(t, build):
    """docs/onnxruntime.md, whose blocks are one program."""
    (t.folder / "build").symlink_to(build)
    tiny_model.write(t.folder / "model.onnx", size=32)
    page = t.folder / "onnxruntime_md.py"  # errors have the page's line numbers
    page.write_text(blocks(ROOT / "docs/onnxruntime.md", "python"))

    process = subprocess.run([sys.executable, page], cwd=t.folder, capture_output=True, text=True)
    t.check(process.returncode == 0, f"docs/onnxruntime.md: {process.stderr[-1500:]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    quiet_environment()
    if not (ROOT / ".onnxruntime/include/onnxruntime_ep_c_api.h").exists():
        print(f"{__file__}:1: Skipped\nno headers of ONNX Runtime here\n[  SKIPPED ] onnxruntime_ep.all")
        return 0
    build = pathlib.Path(arguments.build).resolve()
    with tempfile.TemporaryDirectory() as folder:
        t = Tests(build, folder)
        ort.set_default_logger_severity(4)
        ort.register_execution_provider_library("lathe", str(build / "liblathe_onnxruntime.so"))
        devices = [d for d in ort.get_ep_devices() if d.ep_name == PROVIDER]
        t.check(len(devices) == 1 and devices[0].ep_vendor == "Lathe", "one device of Lathe's")
        del devices
        check_cases(t)
        check_zoo(t, ["mobilenet_v2", "detector"] + (["resnet50", "efficientnet_b0", "vit_b_16", "bert_base", "gpt2"] if arguments.all else []))
        check_memory(t)
        check_external_weights(t)
        check_threads(t)
        check_errors(t)
        check_options(t)
        if arguments.all:
            check_node_tests(t)
        check_page(t, build)
        ort.unregister_execution_provider_library("lathe")
        t.check(not [d for d in ort.get_ep_devices() if d.ep_name == PROVIDER], "the library is gone")
        return t.finish("onnxruntime_ep")


if __name__ == "__main__":
    sys.exit(main())
