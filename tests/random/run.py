#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Engines of random graphs against the oracle.

usage: run.py --build build [--all]
Default: 60 seeds at the machine's own instruction set. --all: 1,000 seeds, and 300 at each level below it.
"""
import argparse
import pathlib
import subprocess
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--build", default="build")
parser.add_argument("--all", action="store_true")
arguments = parser.parse_args()
program = pathlib.Path(arguments.build) / "bin" / "random_graphs"

runs = [["--seeds", "0..999"]] if arguments.all else [["--seeds", "0..59"]]
if arguments.all:
    runs += [["--seeds", "0..299", "--cpuIsa", isa] for isa in ("avx2", "avx512")]
    runs += [["--seeds", "0..99", "--steps", "40"], ["--seeds", "0..99", "--threads", "1"]]

failed = False
for run in runs:
    print("random_graphs", *run, flush=True)
    failed |= subprocess.run([str(program), *run]).returncode != 0
sys.exit(1 if failed else 0)
