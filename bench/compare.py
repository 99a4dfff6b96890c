#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lathe against ONNX Runtime and OpenVINO: same file, threads, precision and inputs, interleaved run by run.

usage: compare.py [--models a,b] [--batches 1,8] [--threads 1,2] [--precision f32,bf16] [--rounds N] [--seconds S]
                  [--cpus 0,1] [--jobs N] [--json FILE] [--onnx FOLDER] [--dims seq=128,width=160] [--level 0-5]
Each round runs every side once (fast models: several times), in turn, so that drift of a shared machine hits all alike: Lathe and
its peers, all thread counts and precisions of a model and batch (ONNX Runtime computes in FP32). The figure is the ratio
of median times, peer / Lathe: above 1 Lathe is faster. Spread: the same ratio of the lower and upper quartiles. "by round": the
median of each round's ratio, for machines that change their speed between rounds, where two medians may stand for two speeds. "predicted"
is the sum of the layers' times that the builder measured, over the engine's median. --seconds ends the rounds of a model and
batch early, but not before the third.

On a machine with many cores: --cpus says which to time on (a configuration takes the first ones), and --jobs 8 first builds the engines
that are not there, eight at a time, each on cores of its own. All of the five models, both precisions:
  compare.py --batches 1,8 --threads 1,2 --precision f32,bf16 --cpus 0,1 --jobs 12 --seconds 6

Models that are no recipe: --onnx names a folder, --models some of its files without their suffix (default: all of them). Their named
dims come from --dims, and `batch` from --batches. Random inputs: normal, whole numbers from 0 to 99, and ones where a name has "mask".

The machine's ceilings are measured first (bench_problems --ceilings). A model's floor is what they leave: the operations of
the direct algorithm at the multiply-add rate, or its weights from memory once, whatever takes longer. "of floor" is floor /
time; Winograd's convolutions can pass 100 %.
"""
import argparse
import concurrent.futures
import json
import math
import multiprocessing
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


class Side:
    """A program that runs a model once per line on its standard input: bench_runner or peer_runner.py."""

    def __init__(self, command, cpus=None):
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        preexec_fn=(lambda: os.sched_setaffinity(0, cpus)) if cpus else None)
        ready = self.process.stdout.readline().split()
        if ready[:1] != ["ready"]:
            raise SystemExit(f"{command[0]}: {' '.join(ready)}")
        self.work = [float(value) for value in ready[1:]]

    def run(self, times):
        self.process.stdin.write(f"{times}\n")
        self.process.stdin.flush()
        return [float(t) for t in self.process.stdout.readline().split()]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def lathe(args, engine, threads, files, cpus=None):
    return Side([args.build / "bin" / "bench_runner", engine, threads, *files], cpus)


def peer(kind, model, threads, precision, files, cpus=None):
    return Side([sys.executable, pathlib.Path(__file__).parent / "peer_runner.py", kind, model, threads, precision, *files], cpus)


def floor_ms(work, ceilings, precision):
    operations, weights = work
    bf16 = precision == "bf16" and ceilings["bf16_gflops"] > 0
    compute = operations / ceilings["bf16_gflops" if bf16 else "f32_gflops"] / 1e6
    # A copy counts bytes read and written.
    return max(compute, weights * (2 if bf16 else 4) / ceilings["memory_copy_gbs"] / 1e6)


def measure_ceilings(build, threads, cpus=None):
    if cpus:
        os.sched_setaffinity(0, cpus[:threads])
    return json.loads(subprocess.run([build / "bin" / "bench_problems", f"--threads={threads}", "--ceilings"],
                                     check=True, capture_output=True, text=True).stdout)


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


def settle_runs(once_ms):
    """A long run settles within itself."""
    return 0 if once_ms > 4 * SETTLE_MS else math.ceil(SETTLE_MS / once_ms)


def measure(sides, rounds, seconds=math.inf):
    rounds_of = {name: [] for name in sides}
    once = {}
    for name, side in sides.items():
        first = side.run(1)[0]
        once[name] = first if first > 4 * SETTLE_MS else statistics.median(side.run(4)[2:])
    repeat = max(1, min(10, int(10 / min(once.values()))))
    start = time.monotonic()
    for done in range(rounds):
        if done >= 3 and time.monotonic() - start > seconds:
            break
        for name, side in sides.items():
            time.sleep(PAUSE_SECONDS)
            settle = settle_runs(once[name])
            rounds_of[name].append(side.run(settle + repeat)[settle:])
    return {name: {**quartiles([t for times in all_times for t in times]), "rounds": [statistics.median(times) for times in all_times]}
            for name, all_times in rounds_of.items()}


ELEMENTS = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16}


def inputs_of_file(model, dims, seed=7):
    """Random inputs of an ONNX file, and the names of those with named dims."""
    import onnx
    graph = onnx.load(model, load_external_data=False).graph
    weights = {tensor.name for tensor in graph.initializer}
    rng = np.random.default_rng(seed)
    inputs, dynamic = {}, set()
    for value in graph.input:
        if value.name in weights:
            continue
        declared, element = value.type.tensor_type.shape.dim, ELEMENTS[value.type.tensor_type.elem_type]
        missing = [d.dim_param for d in declared if d.dim_param and d.dim_param not in dims]
        if missing:
            raise SystemExit(f"{model}: input '{value.name}' has a dim '{missing[0]}': say how long, as in --dims {missing[0]}=128")
        shape = [dims[d.dim_param] if d.dim_param else d.dim_value for d in declared]
        if "mask" in value.name:
            inputs[value.name] = np.ones(shape, element)
        elif np.issubdtype(element, np.floating):
            inputs[value.name] = rng.standard_normal(shape).astype(element)
        else:
            inputs[value.name] = rng.integers(0, 2 if element == np.bool_ else 100, shape).astype(element)
        if any(d.dim_param for d in declared):
            dynamic.add(value.name)
    return inputs, dynamic


def inputs_and_flags(args, model, name, batch):
    """The inputs, and the flags that say their shapes."""
    if not args.onnx:
        return make_inputs(MODELS[name], batch), [shape_flag("shapes", MODELS[name], batch)]
    inputs, dynamic = inputs_of_file(model, args.dims | {"batch": batch})
    shapes = ",".join(f"{key}:{'x'.join(map(str, array.shape))}" for key, array in inputs.items() if key in dynamic)
    return inputs, [f"--shapes={shapes}"] if shapes else []


def write_model(args, work, name):
    if args.onnx:
        return args.onnx / f"{name}.onnx"
    model = work / f"{name}.onnx"
    if not model.exists():
        shell([args.build / "bin" / "lathe", "zoo", name, "-o", model])
    return model


def prepare(args, work, name, batch, threads, precision, rebuild=False):
    """The model, its engine (built when it is not there), and its inputs as arguments of the runners."""
    model = write_model(args, work, name)
    engine = work / f"{name}.{precision}.b{batch}.t{threads}.engine"
    inputs, flags = inputs_and_flags(args, model, name, batch)
    flags += ["--bf16"] if precision == "bf16" else []
    if rebuild or not engine.exists():
        shell([args.build / "bin" / "trtexec", f"--onnx={model}", f"--saveEngine={engine}", "--skipInference",
               f"--timingCacheFile={work / f'bench.t{threads}.cache'}", f"--cpuThreads={threads}",
               f"--builderOptimizationLevel={args.level}", *flags])
    files = []
    for key, array in inputs.items():
        path = work / f"bench.{name}.{key}.bin"
        array.tofile(path)
        files.append(f"{key}:{'x'.join(map(str, array.shape))}:{path}")
    return model, engine, files


def bench_one(args, work, ceilings, name, batch):
    """A row per thread count and precision, all measured in turns."""
    sides, builder = {}, {}
    for threads in args.all_threads:
        cpus = args.cpus[:threads] if args.cpus else None
        for precision in args.precisions:
            model, engine, files = prepare(args, work, name, batch, threads, precision)
            builder[threads, precision] = builder_times(args, engine)
            sides["lathe", threads, precision] = lathe(args, engine, threads, files, cpus)
            if not args.no_openvino:
                sides["openvino", threads, precision] = peer("openvino", model, threads, precision, files, cpus)
        sides["ort", threads, "f32"] = peer("ort", model, threads, "f32", files, cpus)
    times = measure(sides, args.rounds, args.seconds)
    rows = []
    for threads in args.all_threads:
        for precision in args.precisions:
            ours = ("lathe", threads, precision)
            row = {"model": name, "batch": batch, "threads": threads, "precision": precision, **builder[threads, precision],
                   "times_ms": {"lathe": times[ours], "ort": times["ort", threads, "f32"]}}
            if not args.no_openvino:
                theirs = ("openvino", threads, precision)
                row["times_ms"]["openvino"] = times[theirs]
                row["floor_ms"] = floor_ms(sides[theirs].work, ceilings[threads], precision)
            rows.append(row)
    for side in sides.values():
        side.close()
    return rows


def builder_times(args, engine):
    """What the builder says of the engine: the sum of its layers' times, and the whole engine's when it was built."""
    report = subprocess.run([args.build / "bin" / "lathe", "inspect", engine, "--json"], check=True, capture_output=True, text=True)
    variant = json.loads(report.stdout)["targets"][0]["variants"][0]
    return {"predicted_ms": variant["predicted_ms"], "when_built_ms": variant["measured_ms"]}


def in_own_process(function, *arguments):
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        return pool.submit(function, *arguments).result()


def build_engine(args, work, cpus, name, batch, threads, precision):
    os.sched_setaffinity(0, cpus)
    prepare(args, work, name, batch, threads, precision, args.rebuild)


def build_all(args, work, models, configurations):
    """The engines that are not there, `args.jobs` at a time, on cores of their own: large ones first, and those in FP32 before the
    others, which find their layers' times in the cache."""
    cpus = sorted(os.sched_getaffinity(0))
    width = max(threads for _, _, threads, _ in configurations)
    slots = [set(cpus[i:i + width]) for i in range(0, len(cpus) - width + 1, width)][:args.jobs] or [set(cpus)]
    size = {name: write_model(args, work, name).stat().st_size for name in models}
    waiting = sorted(configurations, key=lambda c: (c[3] != "f32", -c[1], -size[c[0]]))

    def work_in(slot):
        while waiting:
            name, batch, threads, precision = waiting.pop(0)
            try:
                in_own_process(build_engine, args, work, set(sorted(slot)[:threads]), name, batch, threads, precision)
            except SystemExit:
                if not args.onnx:  # bench_one tries again and says why
                    raise

    with concurrent.futures.ThreadPoolExecutor(len(slots)) as pool:
        for done in [pool.submit(work_in, slot) for slot in slots]:
            done.result()


def by_round(peer, ours):
    return statistics.median(p / o for p, o in zip(peer["rounds"], ours["rounds"]))


def geometric_mean(values):
    return float(np.exp(np.mean(np.log(values)))) if values else float("nan")


def line_of(row):
    times, floor = row["times_ms"], row.get("floor_ms")
    ours = times["lathe"]
    share = (lambda t: f"{floor / t['median']:>9.0%}") if floor else (lambda t: f"{'':>9}")
    line = f"{row['model']:<16}{row['precision']:>5}{row['batch']:>6}{row['threads']:>8}"
    line += (f"{floor:>9.2f}" if floor else f"{'':>9}") + f"{ours['median']:>10.3f}" + share(ours)
    for peer in ("ort", "openvino"):
        if peer not in times:
            continue
        t = times[peer]
        spread = f"({t['low'] / ours['low']:.2f}..{t['high'] / ours['high']:.2f})"
        line += f"{t['median']:>10.3f}{share(t)}{t['median'] / ours['median']:>7.2f}{spread:>14}{by_round(t, ours):>10.2f}"
    return line + f"{row['predicted_ms'] / ours['median']:>11.2f}"


def print_scaling(rows):
    """Speed on two threads over one, and ONNX Runtime's, where both were measured."""
    one = {(r["model"], r["batch"], r["precision"]): r["times_ms"] for r in rows if r["threads"] == 1}
    for r in rows:
        if r["threads"] != 2 or (key := (r["model"], r["batch"], r["precision"])) not in one:
            continue
        scaling = {side: one[key][side]["median"] / t["median"] for side, t in r["times_ms"].items()}
        print("2 threads over 1: {:<16} batch {:>2} {:<5}".format(*key) + "".join(f" {n} {x:.2f}" for n, x in scaling.items()))


def dims_of(text):
    return {name: int(size) for name, size in (part.split("=") for part in text.split(","))}


def models_of(args):
    if args.models:
        return args.models.split(",")
    return sorted(path.stem for path in args.onnx.glob("*.onnx")) if args.onnx else DEFAULT_MODELS


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--models", help="names, separated by commas")
    parser.add_argument("--onnx", type=pathlib.Path, help="a folder of models that are no recipes")
    parser.add_argument("--dims", type=dims_of, default={}, help="sizes of their named dims, as in seq=128,width=160")
    parser.add_argument("--level", type=int, default=3, help="the builder's optimization level")
    parser.add_argument("--batches", default="1")
    parser.add_argument("--threads", default=str(min(2, os.cpu_count())))
    parser.add_argument("--precision", default="f32", help="f32, bf16 or both")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=math.inf, help="for the rounds of a configuration")
    parser.add_argument("--cpus", type=lambda text: [int(cpu) for cpu in text.split(",")])
    parser.add_argument("--jobs", type=int, default=1, help="engines that are built at a time")
    parser.add_argument("--rebuild", action="store_true", help="build engines anew even when they are there")
    parser.add_argument("--no-openvino", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    work = args.build / "models"
    work.mkdir(parents=True, exist_ok=True)

    args.all_threads = [int(t) for t in args.threads.split(",")]
    args.precisions = args.precision.split(",")
    models, batches = models_of(args), [int(b) for b in args.batches.split(",")]
    if not set(args.precisions) <= {"f32", "bf16"}:
        parser.error("--precision takes f32, bf16 or f32,bf16")
    if args.cpus and len(args.cpus) < max(args.all_threads):
        parser.error("--cpus names fewer CPUs than there are threads")
    build_all(args, work, models, [(name, batch, threads, precision) for name in models for batch in batches
                                   for threads in args.all_threads for precision in args.precisions])
    ceilings = {t: in_own_process(measure_ceilings, args.build, t, args.cpus) for t in args.all_threads}
    for t, c in ceilings.items():
        print(f"{cpu_name()}, {t} thread{'s' if t > 1 else ''}, {c['isa']}: FP32 {c['f32_gflops']:.0f} GFLOP/s, BF16 "
              f"{c['bf16_gflops']:.0f}; copies {c['cache_copy_gbs']:.0f} GB/s in cache, {c['memory_copy_gbs']:.0f} in memory, "
              f"reads {c['memory_read_gbs']:.0f}")
    print("medians of interleaved runs; ratio = peer / Lathe (lower..upper quartile)")
    print(f"{'model':<16}{'':>5}{'batch':>6}{'threads':>8}{'floor':>9}{'Lathe ms':>10}{'of floor':>9}{'ORT ms':>10}{'of floor':>9}"
          f"{'ratio':>7}{'':>14}{'by round':>10}{'OpenVINO':>10}{'of floor':>9}{'ratio':>7}{'':>14}{'by round':>10}{'predicted':>11}")
    rows = []
    for name in models:
        for batch in batches:
            try:
                measured = bench_one(args, work, ceilings, name, batch)
            except SystemExit as error:
                if not args.onnx:
                    raise
                print(f"{name:<16} not compared: {error}", flush=True)
                continue
            for row in measured:
                rows.append(row)
                print(line_of(row), flush=True)
    for precision in args.precisions:
        for peer in ("ort", "openvino"):
            pairs = [(r["times_ms"][peer], r["times_ms"]["lathe"]) for r in rows if peer in r["times_ms"] and r["precision"] == precision]
            if pairs:
                ratios, turns = [t["median"] / o["median"] for t, o in pairs], [by_round(t, o) for t, o in pairs]
                print(f"{precision}, geometric mean against {peer}: {geometric_mean(ratios):.2f}, lowest {min(ratios):.2f}; "
                      f"by round {geometric_mean(turns):.2f}, lowest {min(turns):.2f}")
    print_scaling(rows)
    if args.json:
        args.json.write_text(json.dumps({"cpu": cpu_name(), "ceilings": ceilings, "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
