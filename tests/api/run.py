#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/, run as their first lines say. usage: run.py --build build [--all]"""
import argparse
import pathlib
import re
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
    return text


def refuse(command, *expected):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    missing = [part for part in expected if part not in done.stderr]
    if done.returncode != 1 or missing:
        sys.exit(f"{command[0].name}: exit code {done.returncode}, missing in its errors: {missing}\n{done.stderr}")


def numbers(pattern, text):
    found = re.search(pattern, text)
    if not found:
        sys.exit(f"no {pattern} in:\n{text}")
    return [float(n) for n in found.groups()]


def check_other_weights(text):
    with_weights, without = numbers(r"(\d+) bytes with weights, (\d+) without", text)
    built, refitted = numbers(r"first element (\S+) and (\S+)", text)
    meanwhile, zeros = numbers(r"meanwhile (\S+), with weights of zero (\S+)", text)
    if not without < with_weights or built != refitted or meanwhile != built or zeros == built:
        sys.exit(f"other_weights: {text}")


def check_edited(text):
    before, after = numbers(r"layers with \S+: (\d+), then (\d+)", text)
    if not after > before:
        sys.exit(f"edit_timing_cache: {text}")


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
        # The samples of examples/README.md, by what they print.
        path = pathlib.Path(folder)
        run([programs / "example_dynamic_shapes", model], "profile 0, batch 1: 1 rows", "profile 0, batch 3: refused", "profile 1, batch 1: refused",
            "profile 1, batch 16: 16 rows")
        run([programs / "example_network_api", path / "root.onnx"], "root of 2: 1.41421", "root of 144: 12", "root of 1e+06: 1000")
        run([programs / "example_build_engine", path / "root.onnx", engine], "saved")
        check_other_weights(run([programs / "example_other_weights", model, path / "stripped.engine"]))
        check_edited(run([programs / "example_edit_timing_cache", model, path / "tiny.cache"]))
        run([programs / "example_keep_state"], "present is the next past", "after 12: mean 6", "appended in place", "from the beginning: mean 5")
        run([programs / "example_shared_memory", model], "40 of 40 runs are right", "16 contexts of", "no more than two of them at a time")
        refuse([programs / "example_shared_memory", path / "nowhere.onnx"], "nowhere.onnx")
        refuse([build_engine], "usage: build_engine")
        refuse([run_engine, model], "tiny.onnx")


if __name__ == "__main__":
    main()
