#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes build/wheel/lathe-*.whl of python/, with the main build's library and the explorer in it. Does nothing when neither has
# changed since.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -e build/liblathe.so.0 ] || { echo "build/ has no liblathe.so: run make build first" >&2; exit 1; }
stamp=build/wheel/sources.stamp
content() {
  cat build/liblathe.so.0 $(ls build/bin/liblathe_cuda.so 2>/dev/null) include/lathe/*.h python/*.* python/src/* python/lathe/*.py python/lathe/*/*.py explorer/core/*.{cpp,h} explorer/python/*.* \
    explorer/python/lathe_explorer/*.py explorer/python/lathe_explorer/*/*.py | sha256sum
}
[ -f "$stamp" ] && [ "$(content)" = "$(cat "$stamp")" ] && exit 0
python=python3
[ -x /usr/bin/python3 ] && python=/usr/bin/python3
[ -x .venv-wheel/bin/pip ] || "$python" -m venv .venv-wheel || { echo "python3 -m venv failed: install python3-venv" >&2; exit 1; }
pip() { .venv-wheel/bin/pip "$@" -q --disable-pip-version-check; }
# Built beside what builds it, so that each build has the same paths and ccache knows it.
pip install $(sed -n 's/^requires = \[\(.*\)\]$/\1/p' python/pyproject.toml | tr -d '",')
if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
rm -rf build/wheel
pip wheel --no-build-isolation --no-deps -w build/wheel ./python
content >"$stamp"
echo "Ready: $(ls build/wheel/*.whl)"
