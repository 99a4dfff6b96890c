#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes .venv-explorer with the explorer's Python package (explorer/python) built from this tree. Does nothing when neither the
# package nor the core has changed since.
set -euo pipefail
cd "$(dirname "$0")/.."
stamp=.venv-explorer/sources.stamp
content() { cat explorer/core/*.cpp explorer/core/*.h src/base/{error,json,file,version}.{cpp,h} src/base/json_value.h explorer/python/*.* explorer/python/lathe_explorer/*.py explorer/python/lathe_explorer/*/*.py | sha256sum; }
[ -f "$stamp" ] && [ "$(content)" = "$(cat "$stamp")" ] && exit 0
# The core of the main build is linked in; without a main build the wheel compiles its own.
[ ! -f build/CMakeCache.txt ] || cmake --build build --target lathe_explorer_core lathe_base >/dev/null
python=python3
[ -x /usr/bin/python3 ] && python=/usr/bin/python3
[ -x .venv-explorer/bin/pip ] || "$python" -m venv .venv-explorer || { echo "python3 -m venv failed: install python3-venv" >&2; exit 1; }
echo "Building the explorer's Python package into .venv-explorer"
pip() { .venv-explorer/bin/pip install -q --disable-pip-version-check "$@"; }
# Built beside what builds it, so that each build has the same paths and ccache knows it: 3 s instead of 30 when nothing is new.
pip $(sed -n 's/^requires = \[\(.*\)\]$/\1/p' explorer/python/pyproject.toml | tr -d '",')
if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
pip --no-build-isolation "./explorer/python[notebook,excel,onnx]"
content >"$stamp"
echo "Ready: .venv-explorer/bin/python -c 'import lathe_explorer'"
