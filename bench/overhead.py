#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a call costs on a network that copies one number, in Python and C++. usage: overhead.py --build build

Run it with the Python of an environment where the wheel is installed. Bars on CPU: 15 us for engine(x), 2 us for execute().
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

import lathe

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/cli"))
import tiny_model  # noqa: E402


def measure(name, call, calls=20000):
    times = []
    for _ in range(calls):
        begin = time.perf_counter_ns()
        call()
        times.append((time.perf_counter_ns() - begin) / 1000)
    times.sort()
    print(json.dumps({"call": name, "median_us": times[calls // 2], "p99_us": times[calls * 99 // 100]}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    build = parser.parse_args().build
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "identity.onnx"
        tiny_model.write_identity(model)
        engine = lathe.compile(model, level=0, threads=1, progress=False)
        x, y = np.ones(1, np.float32), np.empty(1, np.float32)
        measure("Python engine(x)", lambda: engine(x))
        measure("Python engine(x, out=y)", lambda: engine(x, out=y))
        subprocess.run([build / "bin/bench_overhead", model], check=True)


if __name__ == "__main__":
    main()
