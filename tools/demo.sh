#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The tour of `make demo`: a real model becomes an engine, runs, and reports where its time goes. Everything lands in out/.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=build/bin
mkdir -p out

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n%s\n' "$*"; }

say "1. Write a ResNet-50 (random weights, real architecture): out/resnet50.onnx"
$bin/lathe zoo resnet50 -o out/resnet50.onnx --force

say "2. Build its engine for batch 1 to 32 and keep it: out/resnet50.engine"
$bin/trtexec --onnx=out/resnet50.onnx --saveEngine=out/resnet50.engine --timingCacheFile=out/timing.cache \
  --minShapes=input:1x3x224x224 --optShapes=input:1x3x224x224 --maxShapes=input:32x3x224x224 --skipInference

say "3. Load it, run it, and see where the time goes"
$bin/trtexec --loadEngine=out/resnet50.engine --shapes=input:1x3x224x224 --warmUp=200 --iterations=50 --duration=2 \
  --dumpProfile --separateProfileRun --profilingVerbosity=detailed \
  --exportTimes=out/times.json --exportProfile=out/profile.json --exportLayerInfo=out/layers.json

say "4. The same as a page to click through: out/resnet50.html"
$bin/lathe explore out/layers.json out/profile.json out/times.json -o out/resnet50.html || true  # it says why it cannot

say "Files in out/"
ls -l out | awk 'NR > 1 {printf "  %12d  %s\n", $5, $9}'
say "What to try next"
cat <<'TXT'
  build/bin/lathe inspect out/resnet50.engine                 layers, tactics, types, formats, memory
  build/bin/lathe explore out/resnet50.engine --text          where the time goes, in the terminal
  build/bin/lathe diff out/resnet50.onnx out/resnet50.engine  every layer against the reference interpreter
  build/bin/trtexec --onnx=out/resnet50.onnx --bf16           the same in bfloat16, where the CPU has it
  build/bin/lathe zoo                                         the other models
  build/bin/trtexec --help                                    every option
TXT
