#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shapes that do not fit, tensors without elements, huge ones: a right answer or one line of error, never anything else.

usage: run.py --build build [--all] [--only contradictions|empty|operands|property|random] [--step N] [--count N] [--seed N]
--all takes ONNX's node tests of every operator and every recipe through every third of all sizes and with every third of all operands'
shapes and types, and 2,000 random command lines; in a sanitizer's build, which takes ten times as long, every 23rd and 47th and 500.
--all --step 1 --count 20000 is what a release is held to; it takes hours.
"""
import argparse
import itertools
import os
import pathlib
import random
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cli")]
import contradictions
import empty
import hostile
import tiny_model
from harness import Tests, quiet_environment

MEMORY_MIB = 6000  # of a child: what is absurd has to be refused, not swapped


def small_models(t, with_conformance):
    tiny_model.write(t.folder / "tiny.onnx", batch="batch", size=None)
    paths = [t.folder / "tiny.onnx", *sorted(contradictions.MODELS.glob("*.onnx")), *sorted((HERE.parent / "models" / "small").glob("*.onnx"))]
    usual = {"batch": 2, "N": 3, "M": 3, "S": 8, "C": 3, "K": 3, "height": 32, "width": 32}
    models = [hostile.read_model(path, lambda symbol: usual.get(symbol, 32)) for path in paths]
    return models + (hostile.conformance_models(t.folder) if with_conformance else [])


def recipes(t):
    """Models of the zoo, written when they are needed and removed afterwards: some have half a gigabyte."""
    for line in t.run("zoo", program="lathe").out:
        name = line.split()[0] if line.startswith("  ") else ""
        path = t.folder / f"{name}.onnx"
        if name and t.run("zoo", name, "-o", str(path), program="lathe").code == 0:
            yield hostile.read_model(path, lambda symbol: 16 if "seq" in symbol else 1)
            path.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--count", type=int)
    parser.add_argument("--step", type=int, help="every so many-th line of property and operands")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, help="of processor time for a command line, after which it computes for too long")
    parser.add_argument("--kept", help="a file that gets every command line that ended wrongly")
    arguments = parser.parse_args()
    quiet_environment()
    sanitized = "san" in pathlib.Path(arguments.build).name
    wanted = lambda name: arguments.only in (None, name)
    with tempfile.TemporaryDirectory() as folder:
        t = Tests(arguments.build, folder)
        server = hostile.Server(arguments.build, seconds=arguments.seconds or (240 if sanitized else 60), mebibytes=0 if sanitized else MEMORY_MIB,
                                environment=os.environ | {"TMPDIR": folder})
        if wanted("contradictions"):
            contradictions.run_all(t, server, arguments.all)
        if arguments.only == "empty" or arguments.all and wanted("empty"):
            empty.run_all(t, server)
        if wanted("operands"):
            lines = hostile.operand_lines(t.folder, step=arguments.step or (101 if not arguments.all else 23 if sanitized else 3))
            print("operands:", dict(hostile.run_lines(t, server, lines, arguments.kept)), flush=True)
        if wanted("property") or wanted("random"):
            models = small_models(t, arguments.all)
        if wanted("property"):
            lines = itertools.islice(hostile.property_lines(models, random.Random(3)), 0, None, arguments.step or (7 if not arguments.all else 47 if sanitized else 3))
            print("property:", dict(hostile.run_lines(t, server, lines, arguments.kept)), flush=True)
        if wanted("property") and arguments.all and not sanitized:
            for model in recipes(t):
                lines = itertools.islice(hostile.property_lines([model], random.Random(3)), 0, None, arguments.step or 3)
                print(model.path.name, dict(hostile.run_lines(t, server, lines, arguments.kept)), flush=True)
        if wanted("random"):
            lines = hostile.random_lines(models, arguments.count or (60 if not arguments.all else 500 if sanitized else 2000), arguments.seed)
            print("random:", dict(hostile.run_lines(t, server, lines, arguments.kept)), flush=True)
        server.close()
        return t.finish("shapes")


if __name__ == "__main__":
    sys.exit(main())
