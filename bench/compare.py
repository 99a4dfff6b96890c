#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lathe against ONNX Runtime and OpenVINO: same file, threads, precision and inputs, interleaved run by run.

usage: compare.py [--models a,b] [--batches 1,8] [--threads 1,2] [--precision f32|bf16] [--rounds N] [--json FILE]
Each round runs every side once (fast models: several times), in turn, so that drift of a shared machine hits all alike. The
figure is the ratio of median times, peer / Lathe: above 1 Lathe is faster. Spread: the same ratio of the lower and
upper quartiles.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "models"))
from run import MODELS, make_inputs, shape_flag, shell  # noqa: E402

DEFAULT_MODELS = ["resnet50", "mobilenet_v2", "efficientnet_b0", "vit_b_16", "bert_base"]


class Lathe:
    """bench_runner holds the engine and runs it once per line on its standard input."""

    def __init__(self, build, model, engine, spec, batch, threads, files):
        self.process = subprocess.Popen(
            [build / "bin" / "bench_runner", engine, str(threads), *files], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)
        ready = self.process.stdout.readline()
        if not ready.startswith("ready"):
            raise SystemExit(f"bench_runner: {ready}")

    def run(self, times):
        self.process.stdin.write(f"{times}\n")
        self.process.stdin.flush()
        return [float(t) for t in self.process.stdout.readline().split()]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class OnnxRuntime:
    def __init__(self, model, inputs, threads):
        import onnxruntime as ort
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self.session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self.inputs = inputs

    def run(self, times):
        result = []
        for _ in range(times):
            start = time.perf_counter()
            self.session.run(None, self.inputs)
            result.append((time.perf_counter() - start) * 1e3)
        return result


class OpenVino:
    def __init__(self, model, inputs, threads, precision):
        import openvino as ov
        core = ov.Core()
        network = core.read_model(str(model))
        network.reshape({name: array.shape for name, array in inputs.items()})
        compiled = core.compile_model(network, "CPU", {
            "INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY"})
        self.request, self.inputs = compiled.create_infer_request(), inputs

    def run(self, times):
        result = []
        for _ in range(times):
            start = time.perf_counter()
            self.request.infer(self.inputs, share_inputs=True)
            result.append((time.perf_counter() - start) * 1e3)
        return result


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def quartiles(times):
    q = statistics.quantiles(times, n=4)
    return {"median": q[1], "low": q[0], "high": q[2], "best": min(times)}


# The threads of the side before go on spinning for a while; until they sleep they would take a core from the next one.
PAUSE_SECONDS = 0.1
# A turn begins with runs that do not count: they wake the side's threads and let the kernel spread them over the cores.
SETTLE_MS = 60


def measure(sides, rounds):
    times = {name: [] for name in sides}
    for side in sides.values():
        side.run(3)
    once = min(statistics.median(side.run(2)) for side in sides.values())
    repeat = max(1, min(10, int(10 / once)))
    for _ in range(rounds):
        for name, side in sides.items():
            time.sleep(PAUSE_SECONDS)
            settle = max(1, int(SETTLE_MS / once))
            times[name] += side.run(settle + repeat)[settle:]
    return {name: quartiles(t) for name, t in times.items()}


def bench_one(args, work, name, batch, threads):
    spec = MODELS[name]
    model = work / f"{name}.onnx"
    if not model.exists():
        shell([args.build / "bin" / "lathe", "zoo", name, "-o", model])
    engine = work / f"{name}.{args.precision}.b{batch}.t{threads}.engine"
    flags = ["--bf16"] if args.precision == "bf16" else []
    if args.rebuild or not engine.exists():
        shell([args.build / "bin" / "trtexec", f"--onnx={model}", f"--saveEngine={engine}", "--skipInference",
               f"--timingCacheFile={work / f'bench.t{threads}.cache'}", f"--cpuThreads={threads}",
               shape_flag("shapes", spec, batch), *flags])
    inputs = make_inputs(spec, batch)
    files = []
    for key, array in inputs.items():
        path = work / f"bench.{name}.{key}.bin"
        array.tofile(path)
        files.append(f"{key}:{'x'.join(map(str, array.shape))}:{path}")
    sides = {"lathe": Lathe(args.build, model, engine, spec, batch, threads, files),
             "ort": OnnxRuntime(model, inputs, threads)}
    if not args.no_openvino:
        sides["openvino"] = OpenVino(model, inputs, threads, args.precision)
    result = measure(sides, args.rounds)
    sides["lathe"].close()
    return {"model": name, "batch": batch, "threads": threads, "precision": args.precision, "times_ms": result}


def geometric_mean(values):
    return float(np.exp(np.mean(np.log(values)))) if values else float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--models", default=",".join(DEFAULT_MODELS))
    parser.add_argument("--batches", default="1")
    parser.add_argument("--threads", default=str(min(2, os.cpu_count())))
    parser.add_argument("--precision", default="f32", choices=["f32", "bf16"])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--rebuild", action="store_true", help="build engines anew even when they are there")
    parser.add_argument("--no-openvino", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    work = args.build / "models"
    work.mkdir(parents=True, exist_ok=True)

    print(f"{cpu_name()}, {args.precision}, medians of interleaved runs; ratio = peer / Lathe (lower..upper quartile)")
    print(f"{'model':<18}{'batch':>6}{'threads':>8}{'Lathe ms':>10}{'ORT ms':>10}{'ratio':>7}{'':>15}"
          f"{'OpenVINO ms':>13}{'ratio':>7}")
    rows = []
    for name in args.models.split(","):
        for batch in map(int, args.batches.split(",")):
            for threads in map(int, args.threads.split(",")):
                row = bench_one(args, work, name, batch, threads)
                rows.append(row)
                t = row["times_ms"]
                ours, ort = t["lathe"], t["ort"]
                spread = f"({ort['low'] / ours['low']:.2f}..{ort['high'] / ours['high']:.2f})"
                line = (f"{name:<18}{batch:>6}{threads:>8}{ours['median']:>10.3f}{ort['median']:>10.3f}"
                        f"{ort['median'] / ours['median']:>7.2f}{spread:>15}")
                if "openvino" in t:
                    line += f"{t['openvino']['median']:>13.3f}{t['openvino']['median'] / ours['median']:>7.2f}"
                print(line, flush=True)
    for peer in ("ort", "openvino"):
        ratios = [r["times_ms"][peer]["median"] / r["times_ms"]["lathe"]["median"] for r in rows
                  if peer in r["times_ms"]]
        if ratios:
            print(f"geometric mean against {peer}: {geometric_mean(ratios):.2f}, lowest {min(ratios):.2f}")
    if args.json:
        args.json.write_text(json.dumps({"cpu": cpu_name(), "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
