#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the command line: reports, errors, JSON files, public command lines, damage. usage: run.py --build build [--all]

--all also runs the public command lines as they are written, on a model of the zoo (minutes), and 2,000 damaged files. --update rewrites the golden
banners.
"""
import argparse
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import errors
import files
import fuzz
import hostile
import memory
import numerics
import reports
import seeds
import shape_inputs
import shells
import tiny_model
from harness import Tests, quiet_environment


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--only", help="reports, errors, hostile, memory, files, numerics, shape_inputs, seeds or fuzz")
    parser.add_argument("--zoo-model", default="mobilenet_v2")
    arguments = parser.parse_args()
    quiet_environment()
    with tempfile.TemporaryDirectory() as folder:
        t = Tests(arguments.build, folder)
        tiny_model.write(t.folder / "tiny.onnx", batch="batch", size=None)
        tiny_model.write(t.folder / "static.onnx", batch=1, size=64)
        tiny_model.write(t.folder / "images.onnx", batch="batch", size=224)
        tiny_model.write_identity(t.folder / "identity.onnx")
        if arguments.only in (None, "reports", "errors"):
            reports.run_all(t)
        if arguments.only in (None, "errors"):
            errors.run_all(t)
            shells.run_all(t)
        if arguments.only in (None, "hostile"):
            hostile.run_all(t)
        if arguments.only in (None, "files"):
            t.run("--onnx=tiny.onnx", "--saveEngine=tiny.engine", "--optShapes=input:2x3x64x64", "--minShapes=input:1x3x64x64",
                  "--maxShapes=input:4x3x64x64", "--skipInference")
            files.run_all(t)
        if arguments.only in (None, "numerics"):
            numerics.run_all(t)
        if arguments.only in (None, "shape_inputs"):
            shape_inputs.run_all(t)
        if arguments.only in (None, "seeds"):
            seeds.run_all(t, t.folder / "images.onnx", quick=True)
        if arguments.only in (None, "fuzz"):
            t.run("--onnx=tiny.onnx", "--saveEngine=tiny.engine", "--optShapes=input:2x3x64x64", "--skipInference")
            fuzz.run_all(t, 2000 if arguments.all else 60)
        if arguments.only in (None, "memory"):  # (a sanitizer's own tables do not fit below a limit)
            memory.run_all(t, "static.onnx", [70, 80, 400])
        if arguments.all and arguments.only in (None, "memory"):
            t.expect(t.run("zoo", arguments.zoo_model, "-o", "limited.onnx", program="lathe"), 0)
            memory.run_all(t, "limited.onnx", [*range(70, 200, 5), *range(200, 1001, 100)])
        if arguments.all and arguments.only in (None, "seeds"):
            t.expect(t.run("zoo", arguments.zoo_model, "-o", "zoo.onnx", program="lathe"), 0)
            seeds.run_all(t, t.folder / "zoo.onnx", quick=False)
        return t.finish("command line")


if __name__ == "__main__":
    sys.exit(main())
