#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Engine files that older commits wrote (a folder each, made by make.py): each gives what ONNX Runtime said of its network, or one line that
says what to do.

usage: run.py --build build
"""

import argparse
import json
import pathlib
import re
import sys
import tempfile

import numpy as np

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / part) for part in ("cli", "common")]
from harness import Tests, quiet_environment  # noqa: E402
from judge import relative_l2  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
LIMITS = {"f32": 1e-5, "bf16": 2e-2}


def load(t, engine, feeds):
    """What trtexec printed, and the outputs by name."""
    for name, array in feeds.items():
        array.tofile(t.folder / f"{name}.raw")
    files = ",".join(f"{name}:{name}.raw" for name in feeds)
    shapes = ",".join(f"{name}:{'x'.join(map(str, array.shape))}" for name, array in feeds.items())
    r = t.run(
        f"--loadEngine={engine}",
        f"--loadInputs={files}",
        f"--shapes={shapes}",
        "--exportOutput=outputs.json",
        "--iterations=1",
        "--duration=0",
        "--warmUp=0",
    )
    if r.code:
        return r, {}
    return r, {o["name"]: np.array(o["values"]) for o in json.loads((t.folder / "outputs.json").read_text())}


def check_engine(t, engine):
    name, kind, _ = engine.name.split(".")
    known = np.load(engine.parent / f"{name}.npz")
    r, outputs = load(t, engine, {key: known[key] for key in known.files if not key.startswith("output.")})
    what = f"{engine.parent.name}/{engine.name}"
    if r.code == 0:
        for key in known.files:
            if key.startswith("output."):
                error = relative_l2(outputs[key.removeprefix("output.")], known[key])
                t.check(error <= LIMITS[kind], f"{what}: {key} is {error:.1e} off", r)
        return
    errors = [line for line in r.log().splitlines() if "[E]" in line]
    t.check(len(errors) > 0 and re.search(r"--onnx|lathe retune|build it again", errors[0]), f"{what}: no error that says what to do", r)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    arguments = parser.parse_args()
    quiet_environment()
    with tempfile.TemporaryDirectory() as folder:
        t = Tests(arguments.build, folder)
        engines = sorted(HERE.glob("*/*.engine"))
        t.check(len(engines) > 0, "there are no engines of older commits")
        for engine in engines:
            check_engine(t, engine)
        return t.finish("plan_compat")


if __name__ == "__main__":
    sys.exit(main())
