#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package as a user gets it: the wheel in a fresh virtual environment. usage: run.py --build build [--all]"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

from blocks import blocks

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/cli"))
import tiny_model  # noqa: E402


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    subprocess.run([ROOT / "tools/build-wheel.sh"], check=True)
    wheel, = (ROOT / "build/wheel").glob("lathe-*.whl")
    with tempfile.TemporaryDirectory() as folder:
        python = pathlib.Path(folder) / "venv/bin/python"
        subprocess.run([ROOT / ".venv-wheel/bin/python", "-m", "venv", python.parents[1]], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel], check=True)
        # Outside of the tree, so that nothing but what was installed is imported.
        failed = sum(subprocess.run([python, ROOT / "tests/python" / check], cwd=folder).returncode
                     for check in ("check.py", "check_network.py", "check_state.py", "check_memory.py", "check_plugins.py", "check_programs.py", "check_samples.py", "check_serve.py", "tensorrt/check.py",
                                   "tensorrt/check_layers.py", "tensorrt/check_values.py", "tensorrt/check_attention.py", "tensorrt/check_runtime.py", "tensorrt/check_plugin_v3.py",
                                   "tensorrt/check_memory.py"))
        if arguments.all:
            packages, = (ROOT / ".venv/lib").glob("python3*/site-packages")  # onnx
            failed += subprocess.run([python, ROOT / "tests/python/refit_models.py", ROOT / arguments.build / "bin/lathe"], cwd=folder,
                                     env={**os.environ, "PYTHONPATH": str(packages)}).returncode
        tiny_model.write(pathlib.Path(folder) / "model.onnx", size=32)
        page = pathlib.Path(folder) / "python_md.py"  # errors have the page's line numbers
        page.write_text(blocks(ROOT / "docs/python.md", "python"))
        return subprocess.run([python, page], cwd=folder, stdout=subprocess.DEVNULL).returncode or failed


if __name__ == "__main__":
    sys.exit(main())
