#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lathe and ONNX Runtime while another process half uses one core, and after a pause.

usage: load.py [--models a,b] [--threads 2] [--runs 1000] [--seconds 300] [--pauses 50,500] [--json FILE]
Load: each side runs alone and beside load_generator.py (pinned to one core, 2 ms on, 2 ms off), in blocks that take turns, so
that drift of a shared machine hits all alike; a block during which yet other processes ran for more than 3 % of the time is
thrown away and run again, as far as --seconds allow. A core that somebody else half uses costs its share: of two cores a quarter of
the work, so a median of 1.33 times the unloaded one would be ideal, and 2 is what waiting for the slower core costs.
Pause: the first run after the side slept for so many milliseconds, and the tenth.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from compare import PAUSE_SECONDS, ROOT, SETTLE_MS, cpu_name, lathe, peer, prepare

RUNS_PER_BLOCK = 50
PAUSE_ROUNDS = 20


class Load:
    """load_generator.py on one core for the length of a with-statement."""

    def __init__(self, cpu):
        self.command = [sys.executable, "-I", pathlib.Path(__file__).parent / "load_generator.py", str(cpu)]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            raise SystemExit("load_generator.py did not start")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def cpu_seconds():
    """Seconds of computing by process."""
    result = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/task/*/schedstat"):
        try:
            process = int(path.parts[2])
            result[process] = result.get(process, 0) + int(path.read_text().split()[0]) / 1e9
        except (OSError, ValueError, IndexError):
            pass  # it has just ended
    return result


class Others:
    """How much of the time other processes than `own` compute."""

    def __init__(self, own):
        self.own = own

    def begin(self):
        self.before, self.start = cpu_seconds(), time.perf_counter()

    def share(self):
        seconds = time.perf_counter() - self.start
        after = cpu_seconds()
        used = sum(t - self.before.get(process, 0) for process, t in after.items() if process not in self.own)
        return used / seconds


def percentile(times, share):
    return sorted(times)[min(len(times) - 1, int(share * len(times)))]


def summary(times):
    return {"median": statistics.median(times), "p99": percentile(times, 0.99), "runs": len(times)}


class Blocks:
    """Runs blocks of runs of a side and keeps those that nobody disturbed."""

    def __init__(self, sides, seconds):
        self.once = {name: statistics.median(side.run(10)) for name, side in sides.items()}
        self.own = {os.getpid()} | {side.process.pid for side in sides.values()}
        self.end = time.monotonic() + seconds
        self.disturbed = 0

    def in_time(self):
        return time.monotonic() < self.end

    def run(self, name, side, load=None):
        others = Others(self.own | ({load.process.pid} if load else set()))
        settle = max(3, int(SETTLE_MS / self.once[name]))
        while self.in_time():
            time.sleep(PAUSE_SECONDS)  # until the threads of the side before sleep
            others.begin()
            times = side.run(settle + RUNS_PER_BLOCK)[settle:]
            if others.share() < 0.03:
                return times
            self.disturbed += 1
        return []


def measure_load(sides, args):
    alone, loaded = {name: [] for name in sides}, {name: [] for name in sides}
    blocks = Blocks(sides, args.seconds)
    while blocks.in_time() and min(map(len, loaded.values())) < args.runs:
        for name, side in sides.items():
            alone[name] += blocks.run(name, side)
        with Load(args.cpu) as load:
            for name, side in sides.items():
                loaded[name] += blocks.run(name, side, load)
    if min(map(len, loaded.values())) == 0:
        raise SystemExit(f"other processes disturbed all blocks for {args.seconds} s: end them, or raise --seconds")
    return {name: {"alone": summary(alone[name]), "loaded": summary(loaded[name])} for name in sides} | {
        "disturbed_blocks": blocks.disturbed}


def measure_pauses(sides, pauses):
    first = {(name, p): [] for name in sides for p in pauses}
    tenth = {key: [] for key in first}
    for _ in range(PAUSE_ROUNDS):
        for name, side in sides.items():
            for p in pauses:
                side.run(10)
                time.sleep(p / 1e3)
                times = side.run(10)
                first[name, p].append(times[0])
                tenth[name, p].append(times[9])
    return {name: {str(p): {"first": summary(first[name, p]), "tenth": summary(tenth[name, p])} for p in pauses}
            for name in sides}


def print_load(result):
    print(f"  {'':<8}{'alone ms':>10}{'p99':>9}{'loaded ms':>11}{'p99':>9}{'loaded/alone':>14}{'runs':>7}")
    for name in ("lathe", "ort"):
        r = result[name]
        print(f"  {name:<8}{r['alone']['median']:>10.3f}{r['alone']['p99']:>9.3f}{r['loaded']['median']:>11.3f}"
              f"{r['loaded']['p99']:>9.3f}{r['loaded']['median'] / r['alone']['median']:>14.2f}{r['loaded']['runs']:>7}")
    ours, peer = result["lathe"], result["ort"]
    print(f"  ORT / Lathe: alone {peer['alone']['median'] / ours['alone']['median']:.2f}, loaded "
          f"{peer['loaded']['median'] / ours['loaded']['median']:.2f}, p99 alone "
          f"{peer['alone']['p99'] / ours['alone']['p99']:.2f}, p99 loaded {peer['loaded']['p99'] / ours['loaded']['p99']:.2f}"
          f"; {result['disturbed_blocks']} blocks thrown away")


def print_pauses(result):
    for name, by_pause in result.items():
        for pause, r in by_pause.items():
            print(f"  {name:<8}after {pause:>4} ms: first run {r['first']['median']:.3f} ms (p99 {r['first']['p99']:.3f}), "
                  f"tenth {r['tenth']['median']:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--models", default="mobilenet_v2")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count()))
    parser.add_argument("--precision", default="f32", choices=["f32", "bf16"])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=300, help="end after so long, with fewer runs")
    parser.add_argument("--cpu", type=int, default=min(os.sched_getaffinity(0)), help="the core that the load is on")
    parser.add_argument("--pauses", default="50,500", help="milliseconds; empty: no pauses")
    parser.add_argument("--rebuild", action="store_true", help="build engines anew even when they are there")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    work = args.build / "models"
    work.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in args.models.split(","):
        model, engine, files = prepare(args, work, name, 1, args.threads, args.precision, args.rebuild)
        sides = {"lathe": lathe(args, engine, args.threads, files),
                 "ort": peer("ort", model, args.threads, "f32", files)}
        row = {"model": name, "threads": args.threads, "precision": args.precision}
        print(f"{cpu_name()}, {name}, {args.precision}, batch 1, {args.threads} threads")
        if args.runs > 0:
            row["load"] = measure_load(sides, args)
            print_load(row["load"])
        if args.pauses:
            row["pauses"] = measure_pauses(sides, [int(p) for p in args.pauses.split(",")])
            print_pauses(row["pauses"])
        for side in sides.values():
            side.close()
        rows.append(row)
    if args.json:
        args.json.write_text(json.dumps({"cpu": cpu_name(), "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
