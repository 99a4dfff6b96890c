#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds models of many nodes without timing: processor time and memory must grow with the number of nodes, not with its square.

usage: slow.py --build build
Compares models of 10,000 and 100,000 nodes: time per node may double (caches hold the small ones, and an arena's best fit looks at all values
that live at once; a square would be 10), and the large ones have bounds of their own.
"""
import argparse, pathlib, resource, subprocess, sys, tempfile

import make

LIMITS = {"counts": (10_000, 100_000), "growth": 2, "seconds": 60, "megabytes": 2000}


def build(program, model):
    """Seconds of the processor, and megabytes at the peak."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(["/usr/bin/env", "python3", "-c", PEAK, program, f"--onnx={model}", "--builderOptimizationLevel=0", "--skipInference"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{model.name}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, int(done.stderr.split()[-1]) / 1024


# The peak of one child, not of all that have run.
PEAK = """import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)"""


def check(kind, program, folder, limits):
    per_node = []
    good = True
    for count in limits["counts"]:
        model = folder / f"{kind}_{count}.onnx"
        make.write(kind, count, model)
        seconds, megabytes = min(build(program, model) for _ in range(2 if count < 100_000 else 1))
        model.unlink()
        per_node.append(seconds / count)
        print(f"{kind} {count}: {seconds:.2f} s, {megabytes:.0f} MB", flush=True)
        if seconds > limits["seconds"] or megabytes > limits["megabytes"]:
            print(f"  more than {limits['seconds']} s or {limits['megabytes']} MB")
            good = False
    growth = per_node[1] / per_node[0]
    if growth > limits["growth"]:
        print(f"  time per node grows by {growth:.2f}, at most {limits['growth']} is right")
        good = False
    return good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    args = parser.parse_args()
    program = args.build.resolve() / "bin" / "trtexec"
    with tempfile.TemporaryDirectory() as folder:
        results = [check(kind, program, pathlib.Path(folder), LIMITS) for kind in make.KINDS]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
