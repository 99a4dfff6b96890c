#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/, run as their first lines say. usage: run.py --build build [--all]"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import tiny_model  # noqa: E402


def run(command, *expected):
    """The program's output, which must have each of the parts."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    text = done.stdout + done.stderr
    missing = [part for part in expected if part not in text]
    if done.returncode != 0 or missing:
        sys.exit(f"{command[0].name}: exit code {done.returncode}, missing in its output: {missing}\n{text}")


def refuse(command, *expected):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    missing = [part for part in expected if part not in done.stderr]
    if done.returncode != 1 or missing:
        sys.exit(f"{command[0].name}: exit code {done.returncode}, missing in its errors: {missing}\n{done.stderr}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--all", action="store_true")
    programs = parser.parse_args().build.resolve() / "bin"
    build_engine, run_engine = programs / "example_build_engine", programs / "example_run_engine"
    with tempfile.TemporaryDirectory() as folder:
        model, engine = pathlib.Path(folder) / "tiny.onnx", pathlib.Path(folder) / "tiny.engine"
        tiny_model.write(model, size=16)
        run([build_engine, model, engine, 2], "saved", "layers")
        run([run_engine, engine], "first element", " ms  ")
        run([programs / "example_run_model", model, engine], "output: 1 10, first element")
        refuse([programs / "example_run_model", engine, model], "tiny.engine")
        refuse([build_engine], "usage: build_engine")
        refuse([run_engine, model], "tiny.onnx")


if __name__ == "__main__":
    main()
