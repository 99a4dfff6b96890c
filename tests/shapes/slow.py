#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""1,000 random shapes within a profile, on one context each of ResNet-50 (batch) and BERT (batch and sequence): memory flat.

usage: slow.py --build build [--count 1000]
Other folders' tests do the same with a small network in seconds (builder_test).
"""
import argparse
import pathlib
import subprocess
import sys

MODELS = {
    "resnet50": ("input:1x3x224x224", "input:2x3x224x224", "input:3x3x224x224"),
    "bert_base": ("input_ids:1x1,attention_mask:1x1", "input_ids:1x24,attention_mask:1x24", "input_ids:3x48,attention_mask:3x48"),
}
LIMIT_MIB = 24  # prepared plans and oneDNN's primitives fill their bounded caches in the first runs


def shell(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"exit {done.returncode}: {' '.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--count", type=int, default=1000)
    args = parser.parse_args()
    work = args.build / "shapes"
    work.mkdir(parents=True, exist_ok=True)
    failed = False
    for name, (low, opt, high) in MODELS.items():
        model, engine = work / f"{name}.onnx", work / f"{name}.engine"
        shell(args.build / "bin" / "lathe", "zoo", name, "-o", model, "--force")
        shell(args.build / "bin" / "trtexec", f"--onnx={model}", f"--saveEngine={engine}", "--skipInference",
              f"--minShapes={low}", f"--optShapes={opt}", f"--maxShapes={high}")
        print(name, flush=True)
        failed |= subprocess.run([args.build / "bin" / "random_shapes", engine, str(args.count), "1", str(LIMIT_MIB)]).returncode != 0
        model.unlink()
        engine.unlink()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
