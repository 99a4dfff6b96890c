#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks Lathe on a machine with an NVIDIA GPU: every model of the zoo, in every type and at two levels, each layer against the
# oracle; 10,000 replays under load give the same bytes; 1,000 shapes on one context leave the GPU's memory as it was; the Python
# package with torch's CUDA tensors and streams, and a plugin with CUDA code. Prints times.
# usage: tests/gpu/run.sh [BUILD_DIR [OUT_DIR [MODEL...]]]
# LEVELS (0 3) and MODES (noTF32 tf32 fp16 bf16) choose what is built; STEPS (models replays shapes torch) what is run; REPLAYS, SHAPES: how
# often; KEEP=1 keeps the engines; PYTHON: where torch and the wheel are.
set -uo pipefail
build=${1:-build} out=${2:-out/gpu}
shift $(($# < 2 ? $# : 2))
models=("$@")
[ ${#models[@]} -gt 0 ] ||
  models=(resnet50 mobilenet_v2 efficientnet_b0 vit_b_16 bert_base gpt2 vgg16 detector)
mkdir -p "$out"
failed=0

limit() { case $1 in noTF32) echo 1e-5 ;; bf16) echo 4e-2 ;; *) echo 5e-3 ;; esac; }

shapes() {
  case $1 in
    bert_base) echo "--shapes=input_ids:1x128,attention_mask:1x128" ;;
    gpt2) echo "--shapes=input_ids:1x64,attention_mask:1x64" ;;
  esac
}

# Random numbers in [-1, 1) give the detector no box. This noise gives eleven, with scores that 16 bits keep in order.
inputs() {
  [ "$1" = detector ] || return
  [ -f "$out/images.bin" ] || { python3 -c '
import array, random, sys
random.seed(7)
array.array("f", (random.gauss(0, 0.91) for _ in range(3 * 320 * 320))).tofile(open(sys.argv[1], "wb"))' "$out/images.$$" && mv "$out/images.$$" "$out/images.bin"; }
  echo "--loadInputs=images:$out/images.bin"
}

model() {
  [ -f "$out/$1.onnx" ] || "$build/bin/lathe" zoo "$1" -o "$out/$1.onnx" >/dev/null || exit 1
}

# MODEL MODE LEVEL
check_model() {
  local model=$1 mode=$2 level=$3 flag=--$2
  [ "$mode" = tf32 ] && flag=
  local name=$out/$model.$mode.l$level
  if ! timeout "${LIMIT:-120}" "$build/bin/trtexec" --onnx="$out/$model.onnx" --device=0 $flag $(shapes "$model") $(inputs "$model") \
    --saveEngine="$name.engine" --builderOptimizationLevel="$level" --timingCacheFile="$out/timing.cache" --duration=1 --warmUp=100 \
    --noDataTransfers --useCudaGraph --dumpProfile --separateProfileRun >"$name.log" 2>&1; then
    printf '%-16s %-7s level %s FAILED to build or run: %s\n' "$model" "$mode" "$level" \
      "$(grep -E '\[E\]|Cannot find' "$name.log" | head -2 | cut -c1-400)"
    return 1
  fi
  local time note built status
  time=$(sed -n 's/.*GPU Compute Time:.*median = \([^ ]*\) ms.*/\1/p' "$name.log" | head -1)
  note=$(grep -o 'launched .*' "$name.log" | head -1 | cut -c1-110)
  built=$(sed -n 's/.*Engine built in \([0-9.]*\) sec.*/\1/p' "$name.log" | head -1)
  timeout "${LIMIT:-120}" "$build/bin/lathe" diff "$out/$model.onnx" "$name.engine" --device=0 $(shapes "$model") $(inputs "$model") \
    --threshold="$(limit "$mode")" >"$name.diff" 2>&1
  status=$?
  printf '%-16s %-7s level %s %8s ms  built in %6s s  %s  %s\n' "$model" "$mode" "$level" "${time:-?}" "${built:-?}" \
    "$([ $status = 0 ] && echo "agrees ($(sed -n 's/^output .*relative L2 \([^,]*\),.*/\1/p' "$name.diff" | sort -g | tail -1))" ||
      echo "DIFFERS: $(tail -3 "$name.diff" | tr '\n' ' ' | cut -c1-300)")" "$note"
  [ -n "${KEEP:-}" ] || rm -f "$name.engine"
  return $status
}

# An engine for batches of 1 to 8 and sequences of 16 to 128 in FP16, at level 0: NAME.
dynamic_engine() {
  model "$1"
  local x='input:$1x3x224x224'
  [ "$1" = bert_base ] && x='input_ids:$1x$2,attention_mask:$1x$2'
  at() { x=${x//'$1'/$1} && echo "${x//'$2'/$2}"; }
  "$build/bin/trtexec" --onnx="$out/$1.onnx" --device=0 --fp16 --builderOptimizationLevel=0 --skipInference \
    --minShapes="$(at 1 16)" --optShapes="$(at 2 64)" --maxShapes="$(at 8 128)" --saveEngine="$out/$1.dynamic.engine" >"$out/$1.dynamic.log" 2>&1 ||
    { echo "$1: no engine with dynamic shapes: $(grep -F '[E]' "$out/$1.dynamic.log" | head -1)"; return 1; }
}

for step in ${STEPS:-models replays shapes torch}; do
  case $step in
    models)
      for m in "${models[@]}"; do
        model "$m"
        for mode in ${MODES:-noTF32 tf32 fp16 bf16}; do
          for level in ${LEVELS:-0 3}; do check_model "$m" "$mode" "$level" || failed=1; done
        done
      done
      ;;
    replays)
      for m in resnet50 bert_base; do
        dynamic_engine $m && "$build/bin/replays" "$out/$m.dynamic.engine" "${REPLAYS:-10000}" || failed=1
      done
      ;;
    shapes)
      dynamic_engine bert_base && "$build/bin/random_shapes" "$out/bert_base.dynamic.engine" "${SHAPES:-1000}" 7 4 0 | tail -2 || failed=1
      ;;
    torch)
      plugin=$out/libswish_cuda.so
      if command -v nvcc >/dev/null; then
        nvcc -std=c++20 -O2 -shared -Xcompiler -fPIC -Iinclude examples/plugin/swish_cuda.cu -o "$plugin" || failed=1
      fi
      "${PYTHON:-python3}" tests/gpu/torch_tensors.py "$plugin" "$build/bin/enqueue_cost" "$build/liblathe_onnxruntime.so" || failed=1
      ;;
  esac
done
exit $failed
