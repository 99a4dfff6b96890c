#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch.compile(backend="lathe") on small functions and on models of torchvision and transformers.

usage: slow.py --build build
The first run makes BUILD/torch-venv with the packages of requirements.txt (5.7 GB). The wheel is made and installed into it.
"""
import argparse
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "python"))
from wheel_environment import wheel_environment  # noqa: E402


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    python = wheel_environment(parser.parse_args().build.resolve() / "torch-venv", HERE / "requirements.txt")
    return subprocess.run([python, HERE / "check.py"]).returncode


if __name__ == "__main__":
    sys.exit(main())
