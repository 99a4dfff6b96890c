#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An older build of Lathe against this one: did any model become slower?

usage: guard.py --old BUILD [--new BUILD] [--models a,b] [--batches 1,8] [--precision f32,bf16] [--threads 2]
                [--device 0] [--rounds N] [--seconds S] [--cpus 0,1] [--json FILE]
Each build makes its own engine of each model (its own tuner, its own cache) and runs it in turn with the other, so that drift of
the machine hits both. The figure is old / new: above 1 the new build is faster. On a GPU (--device), where trtexec measures with a CUDA graph
and inputs on the device, it is that of median times; on a CPU that of the best, since what else a shared machine does only ever adds
time, and medians of the same engine differ by half there (they are printed, too). Build times are those of a cold cache and of a second build
with that cache. Exits with 1 where the geometric mean is below 0.99 or a model below 0.96.
"""

import argparse
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from compare import DEFAULT_MODELS, MODELS, ROOT, Side, geometric_mean, make_inputs, measure, shape_flag, shell  # noqa: E402

FLAGS = {"f32": [], "bf16": ["--bf16"], "fp16": ["--fp16"]}
LOWEST_MEAN, LOWEST = 0.99, 0.96


def build_seconds(args, bin_dir, model, engine, cache, flags):
    """Writes the engine and returns the seconds that its build took."""
    start = time.monotonic()
    shell([bin_dir / "trtexec", f"--onnx={model}", f"--saveEngine={engine}", "--skipInference", f"--timingCacheFile={cache}", *flags])
    return time.monotonic() - start


def flags_of(args, name, batch, precision):
    where = [f"--device={args.device}"] if args.device is not None else [f"--cpuThreads={args.threads}"]
    return [shape_flag("shapes", MODELS[name], batch), *FLAGS[precision], *where]


def gpu_median(bin_dir, engine, shapes, device):
    """The median of "GPU Compute Time" in milliseconds."""
    printed = subprocess.run(
        [
            bin_dir / "trtexec",
            f"--loadEngine={engine}",
            f"--device={device}",
            "--useCudaGraph",
            "--noDataTransfers",
            "--warmUp=200",
            "--duration=1",
            shapes,
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return float(re.search(r"GPU Compute Time:.*?median = ([\d.]+) ms", printed)[1])


def on_gpu(args, builds, engines, name, batch):
    shapes = shape_flag("shapes", MODELS[name], batch)
    times = {side: [] for side in builds}
    for _ in range(args.rounds):
        for side, bin_dir in builds.items():
            times[side].append(gpu_median(bin_dir, engines[side], shapes, args.device))
    medians = {side: statistics.median(values) for side, values in times.items()}
    return {"best": medians, "median": medians}


def on_cpu(args, builds, engines, name, batch, work):
    files = []
    for key, array in make_inputs(MODELS[name], batch).items():
        path = work / f"{name}.{key}.bin"
        array.tofile(path)
        files.append(f"{key}:{'x'.join(map(str, array.shape))}:{path}")
    sides = {side: Side([bin_dir / "bench_runner", engines[side], args.threads, *files], args.cpus) for side, bin_dir in builds.items()}
    times = measure(sides, args.rounds, args.seconds)
    for side in sides.values():
        side.close()
    return {kind: {side: t[kind] for side, t in times.items()} for kind in ("best", "median")}


def compare(args, builds, work, name, batch, precision):
    model = work / f"{name}.onnx"
    if not model.exists():
        shell([builds["new"] / "lathe", "zoo", name, "-o", model])
    engines = {side: work / f"{name}.{precision}.b{batch}.{side}.engine" for side in builds}
    seconds = {}
    for side, bin_dir in builds.items():
        cache = work / f"{name}.{precision}.b{batch}.{side}.cache"
        cache.unlink(missing_ok=True)
        flags = flags_of(args, name, batch, precision)
        seconds[side] = [build_seconds(args, bin_dir, model, engines[side], cache, flags) for _ in ("cold", "warm")]
    times = on_gpu(args, builds, engines, name, batch) if args.device is not None else on_cpu(args, builds, engines, name, batch, work)
    return {
        "model": name,
        "batch": batch,
        "precision": precision,
        "times_ms": times["best"],
        "medians_ms": times["median"],
        "build_seconds": seconds,
        "ratio": times["best"]["old"] / times["best"]["new"],
    }


def line_of(row):
    times = "".join(f"{row[kind][side]:>10.3f}" for kind in ("medians_ms", "times_ms") for side in ("old", "new"))
    builds = "".join(f"{cold:>9.1f}{warm:>7.1f}" for cold, warm in (row["build_seconds"][side] for side in ("old", "new")))
    return f"{row['model']:<16}{row['precision']:>5}{row['batch']:>6}{times}{row['ratio']:>8.2f}{builds}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", type=pathlib.Path, required=True, help="the build folder of the older commit")
    parser.add_argument("--new", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--models", default=",".join(DEFAULT_MODELS))
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--precision", default="f32,bf16", help="f32, bf16, fp16 (on GPUs)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", type=int, help="a GPU instead of the CPU")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=math.inf, help="for the rounds of a configuration on a CPU")
    parser.add_argument("--cpus", type=lambda text: [int(cpu) for cpu in text.split(",")])
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    builds = {"old": args.old / "bin", "new": args.new / "bin"}
    work = args.new / "guard"
    work.mkdir(parents=True, exist_ok=True)
    print(
        f"{'model':<16}{'type':>5}{'batch':>6}{'median old':>12}{'new ms':>8}{'best old':>10}{'new ms':>10}{'ratio':>8}{'old built':>9}{'again':>7}{'new built':>9}{'again':>7}"
    )
    rows = []
    for name in args.models.split(","):
        for batch in map(int, args.batches.split(",")):
            for precision in args.precision.split(","):
                rows.append(compare(args, builds, work, name, batch, precision))
                print(line_of(rows[-1]), flush=True)
    ratios = [row["ratio"] for row in rows]
    built = {
        kind: geometric_mean([row["build_seconds"]["old"][i] / row["build_seconds"]["new"][i] for row in rows])
        for i, kind in enumerate(("cold", "warm"))
    }
    print(
        f"geometric mean {geometric_mean(ratios):.3f}, lowest {min(ratios):.2f}; builds, old / new: "
        f"cold {built['cold']:.2f}, warm {built['warm']:.2f}"
    )
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    return 0 if geometric_mean(ratios) >= LOWEST_MEAN and min(ratios) >= LOWEST else 1


if __name__ == "__main__":
    sys.exit(main())
