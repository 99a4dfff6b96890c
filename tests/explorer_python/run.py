#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The explorer's Python package, built as a wheel into an environment of its own and used on files of every dialect.

    run.py --build build [--all]

The wheel has its own core; --build is where the lathe program is that the notebooks run.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What every Linux with a C++ program on it has; anything else would have to be in the wheel.
SYSTEM = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "libpthread.so.0", "ld-linux-x86-64.so.2"}


def self_contained():
    """The module's libraries are the system's."""
    module = next((ROOT / ".venv-explorer").glob("lib/python3*/site-packages/lathe_explorer/_core*.so"))
    text = subprocess.run(["readelf", "-d", module], capture_output=True, text=True, check=True).stdout
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", text))
    print(f"{module.name} needs {', '.join(sorted(needed))}")
    return bool(needed) and needed <= SYSTEM


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    subprocess.run([ROOT / "tools/setup-explorer.sh"], check=True)
    failed = not self_contained()
    # The notebooks look for the lathe program on the PATH.
    environment = {**os.environ, "PATH": f"{(pathlib.Path(arguments.build) / 'bin').resolve()}:{os.environ['PATH']}"}
    for script in ("check.py", "check_trex.py", "check_notebooks.py"):
        command = [ROOT / ".venv-explorer/bin/python", pathlib.Path(__file__).with_name(script)]
        failed |= subprocess.run(command, env=environment).returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
