#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks Lathe on a machine with an NVIDIA GPU: every model of the zoo in FP32, TF32 and FP16 against the oracle, and its
# times. usage: tests/gpu/run.sh [BUILD_DIR [OUT_DIR [MODEL...]]]
# LEVEL (default 3) is the builder's optimization level, MODES the modes to run.
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

for model in "${models[@]}"; do
  [ -f "$out/$model.onnx" ] || "$build/bin/lathe" zoo "$model" -o "$out/$model.onnx" >/dev/null || exit 1
  for mode in ${MODES:-noTF32 tf32 fp16}; do
    flag=--$mode
    [ "$mode" = tf32 ] && flag=
    engine=$out/$model.$mode.engine log=$out/$model.$mode.log
    if ! timeout "${LIMIT:-120}" "$build/bin/trtexec" --onnx="$out/$model.onnx" --device=0 $flag $(shapes "$model") --saveEngine="$engine" \
      --builderOptimizationLevel="${LEVEL:-3}" --timingCacheFile="$out/timing.cache" --duration=1 --warmUp=100 \
      --noDataTransfers --useCudaGraph --dumpProfile --separateProfileRun >"$log" 2>&1; then
      printf '%-16s %-7s FAILED to build or run: %s\n' "$model" "$mode" "$(grep -E '\[E\]|Cannot find' "$log" | head -2 | cut -c1-400)"
      failed=1
      continue
    fi
    time=$(sed -n 's/.*GPU Compute Time:.*median = \([^ ]*\) ms.*/\1/p' "$log" | head -1)
    note=$(grep -o 'launched .*' "$log" | head -1 | cut -c1-110)
    built=$(sed -n 's/.*Engine built in \([0-9.]*\) sec.*/\1/p' "$log" | head -1)
    error=$(timeout "${LIMIT:-120}" "$build/bin/lathe" diff "$out/$model.onnx" "$engine" --device=0 $(shapes "$model") --threshold="$(limit "$mode")" 2>&1)
    status=$?
    echo "$error" >"$out/$model.$mode.diff"
    printf '%-16s %-7s %8s ms  built in %6s s  %s  %s\n' "$model" "$mode" "${time:-?}" "${built:-?}" \
      "$([ $status = 0 ] && echo agrees || { echo "DIFFERS: $(tail -3 <<<"$error" | tr '\n' ' ' | cut -c1-300)"; })" "$note"
    [ $status = 0 ] || failed=1
    [ -n "${KEEP:-}" ] || rm -f "$engine"
  done
done
exit $failed
