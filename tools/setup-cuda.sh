#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes .venv-cuda with NVIDIA's headers and libraries from PyPI (requirements-cuda.txt; 0.9 GB to fetch, 1.3 GB on disk).
# Does nothing when it is already there with the same pins.
set -euo pipefail
cd "$(dirname "$0")/.."
stamp=.venv-cuda/requirements.stamp
cmp -s requirements-cuda.txt "$stamp" && exit 0
echo "Making .venv-cuda with: $(grep -v '^#' requirements-cuda.txt | tr '\n' ' ')"
python=python3
[ -x /usr/bin/python3 ] && python=/usr/bin/python3
"$python" -m venv .venv-cuda || { echo "python3 -m venv failed: install python3-venv" >&2; exit 1; }
.venv-cuda/bin/pip install -q --disable-pip-version-check --no-deps --no-compile -r requirements-cuda.txt
cp requirements-cuda.txt "$stamp"
