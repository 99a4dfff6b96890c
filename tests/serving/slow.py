#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The server as clients see it: `lathe serve` and lathe.serve.ray_app() against tritonclient, and the code blocks of docs/serving.md.

usage: slow.py --build build [--only TEXT]
The first run makes BUILD/serving-venv with the packages of requirements.txt (0.8 GB). The wheel is made and installed into it.
"""
import argparse
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "python"))
from wheel_environment import wheel_environment  # noqa: E402

CHECKS = ("check_server.py", "check_ray.py", "check_docs.py")
# A network of its own with nothing but loopback: Ray's processes would talk over the machine's address.
LOOPBACK_ALONE = ("unshare", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    python = wheel_environment(arguments.build.resolve() / "serving-venv", HERE / "requirements.txt")
    failed = [check for check in CHECKS if arguments.only in check and subprocess.run([*LOOPBACK_ALONE, python, HERE / check]).returncode]
    print(f"failed: {', '.join(failed)}" if failed else "all passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
