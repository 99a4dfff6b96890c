#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A smoke model on an emulated CPU that has AVX2 and nothing above it (qemu-user, -cpu Haswell).

Shows that run-time dispatch holds: no instruction above AVX2 is executed, the engine names the right target, and the
outputs equal those of the real CPU. usage: slow.py --build build
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys

MODEL = "tests/models/small/tiny.onnx"


def run(command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"exit {done.returncode}: {' '.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def outputs(path):
    return {o["name"]: o["values"] for o in json.loads(path.read_text())}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--all", action="store_true")
    args = parser.parse_args()
    emulator = shutil.which("qemu-x86_64")
    if not emulator:
        raise SystemExit("qemu-x86_64 is missing: tools/setup.sh test-all installs it")
    work = args.build / "emulation"
    work.mkdir(parents=True, exist_ok=True)
    trtexec = args.build / "bin" / "trtexec"
    common = [f"--onnx={MODEL}", "--builderOptimizationLevel=0", "--warmUp=0", "--duration=0", "--iterations=1"]
    run([trtexec, *common, f"--exportOutput={work / 'real.json'}"])
    log = run([emulator, "-cpu", "Haswell", trtexec, *common, f"--exportOutput={work / 'avx2.json'}"])
    if "avx512" in log.lower():
        raise SystemExit("the emulated CPU has no AVX-512, but the log speaks of it")
    real, emulated = outputs(work / "real.json"), outputs(work / "avx2.json")
    worst = 0.0
    for name, values in real.items():
        norm = sum(v * v for v in values) ** 0.5
        worst = max(worst, sum((a - b) ** 2 for a, b in zip(values, emulated[name])) ** 0.5 / max(norm, 1e-30))
    print(f"AVX2 under emulation against this CPU: relative L2 {worst:.2e} (limit 1e-5)")
    return 0 if worst <= 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main())
