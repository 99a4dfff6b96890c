#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Fetches ONNX Runtime's C headers, against which the execution provider is compiled, into .onnxruntime/include. usage:
# tools/setup-onnxruntime.sh build|test
#   build  a failure is an error
#   test   without npm's registry the build goes on without the provider, whose tests are then skipped, and one line says so
# They come in a package for Unity, whose iOS framework carries them (npm's registry, MIT licence, 150 MB to fetch, 0.6 MB kept): a small
# package that has them is not known. onnxruntime/headers.sha256 pins each file. Does nothing when they are there already.
set -euo pipefail
cd "$(dirname "$0")/.."
package=com.github.asus4.onnxruntime@0.4.9
inside='package/Plugins/iOS~/onnxruntime.xcframework/ios-arm64/onnxruntime.framework/Headers'
wanted=${1:-build}
case "$wanted" in build | test) ;; *) sed -n '4,10p' "$0"; exit 2 ;; esac

pins=$PWD/onnxruntime/headers.sha256
matches() { [ -d "$1" ] && (cd "$1" && sha256sum --status -c "$pins" 2>/dev/null); }
matches .onnxruntime/include && exit 0

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
give_up() {
  tail -n 5 "$temporary/log" >&2 || true
  if [ "$wanted" = build ]; then
    echo "The execution provider for ONNX Runtime cannot be built: $1" >&2
    exit 1
  fi
  echo "The build goes on without the execution provider for ONNX Runtime ($1)." >&2
  exit 0
}

PATH="$PWD/.venv-node/bin:$PATH"
echo "Fetching ONNX Runtime's C headers (from $package)"
command -v npm >/dev/null || give_up "no npm here"
(cd "$temporary" && npm pack "$package" --ignore-scripts --loglevel=error --fetch-retries=1 --fetch-timeout=120000) \
  >"$temporary/log" 2>&1 || give_up "npm could not fetch $package"
mkdir "$temporary/include"
while read -r _ name; do
  tar -xzOf "$temporary"/*.tgz "$inside/$name" >"$temporary/include/$name" 2>>"$temporary/log" || give_up "$package has no $name"
done <"$pins"
matches "$temporary/include" || give_up "the headers in $package are not those of onnxruntime/headers.sha256"
mkdir -p .onnxruntime
rm -rf .onnxruntime/include
mv "$temporary/include" .onnxruntime/include
