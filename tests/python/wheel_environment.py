# SPDX-License-Identifier: Apache-2.0
"""A virtual environment with the packages of a requirements file and the wheel of this tree, for slow tests."""
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def wheel_environment(home, requirements):
    """Its Python. Packages are installed once, until the file changes; the wheel is made and installed each time."""
    subprocess.run([ROOT / "tools/build-wheel.sh"], check=True)
    pins, python, stamp = requirements.read_text(), home / "bin/python", home / "requirements.stamp"
    install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    if not stamp.exists() or stamp.read_text() != pins:
        subprocess.run([ROOT / ".venv-wheel/bin/python", "-m", "venv", home], check=True)
        subprocess.run([*install, "-r", requirements], check=True)
        stamp.write_text(pins)
    wheel, = (ROOT / "build/wheel").glob("lathe-*.whl")
    subprocess.run([*install, "--no-deps", "--force-reinstall", wheel], check=True)
    return python
