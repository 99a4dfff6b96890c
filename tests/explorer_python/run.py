#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The explorer's Python package, built as a wheel into an environment of its own and used on files of every dialect.

    run.py --build build [--all]        (--build is not needed: the wheel has its own core)
"""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    subprocess.run([ROOT / "tools/setup-explorer.sh"], check=True)
    return subprocess.run([ROOT / ".venv-explorer/bin/python", pathlib.Path(__file__).with_name("check.py")]).returncode


if __name__ == "__main__":
    sys.exit(main())
