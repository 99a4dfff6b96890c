#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes .venv with the pinned peers that tests and benchmarks compare with (requirements.txt). Does nothing when it is
# already there with the same pins.
set -euo pipefail
cd "$(dirname "$0")/.."
stamp=.venv/requirements.stamp
cmp -s requirements.txt "$stamp" && exit 0
echo "Making .venv with: $(grep -v '^#' requirements.txt | tr '\n' ' ')"
python=python3
[ -x /usr/bin/python3 ] && python=/usr/bin/python3
"$python" -m venv .venv || { echo "python3 -m venv failed: install python3-venv" >&2; exit 1; }
.venv/bin/pip install -q --disable-pip-version-check -r requirements.txt
cp requirements.txt "$stamp"
