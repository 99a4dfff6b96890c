#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs one group of checks and counts them. usage: tools/test.sh fast|asan|tsan|slow|asan-cli
# A check is a name and a command; its output is kept in build/test-logs and printed when it fails.
set -uo pipefail
cd "$(dirname "$0")/.."
logs=build/test-logs
mkdir -p "$logs"
cores=$(nproc)
touch "$logs/results"
before=$(wc -l <"$logs/results")
declare -A started=()

# A test that passes, in GoogleTest's output: nothing that a reader of a failure needs.
passing='^\[( +(RUN|OK) +|-+)\]'

run_check() {  # run_check NAME COMMAND...: a line when it ends, and one for each reason why it skipped tests
  local name=$1 start=$SECONDS log="$logs/${1//\//_}.log" skipped
  shift
  if "$@" >"$log" 2>&1 && skipped=$(tools/skips.py "$log" 2>>"$log"); then
    printf '  %-44s ok      %4d s\n%s' "$name" $((SECONDS - start)) "${skipped:+$(sed 's/^/      /' <<<"$skipped")$'\n'}"
    echo "ok $name" >>"$logs/results"
    echo "$skipped" >>"$logs/skipped"
  else
    printf '  %-44s FAILED  %4d s\n%s\n' "$name" $((SECONDS - start)) \
      "$(grep -vE "$passing" "$log" | tail -n 60 | sed 's/^/    | /')"
    echo "failed $name" >>"$logs/results"
    return 1
  fi
}

# Checks use a core each, mostly, so one is started per core. None of them measures time.
check() {  # check NAME COMMAND...: once for each name
  [ -z "${started[$1]:-}" ] || return 0
  started[$1]=1
  while [ "$(jobs -rp | wc -l)" -ge "$cores" ]; do wait -n; done
  run_check "$@" &
}

# Waits for every check. Each has said how it ended, in a line: bash forgets an exit status when its process id comes again.
all_passed() {
  wait
  [ "$(tail -n +$((before + 1)) "$logs/results" | grep -c '^ok ')" -eq "${#started[@]}" ]
}

# Long programs are run as several, side by side.
declare -A parts=([backend_cuda_test]=2)

programs() {  # programs BUILD_DIR PREFIX [NAMES...]: the test programs of a build
  local dir=$1 prefix=$2 program name part count
  shift 2
  for program in "$dir"/bin/*_test; do
    [ -x "$program" ] || continue
    name=$(basename "$program")
    if [ $# -gt 0 ] && [[ " $* " != *" $name "* ]]; then continue; fi
    count=${parts[$name]:-1}
    for ((part = 1; part <= count; ++part)); do
      check "$prefix$name$([ "$count" = 1 ] || echo ".$part")" \
        env GTEST_TOTAL_SHARDS="$count" GTEST_SHARD_INDEX=$((part - 1)) "$program"
    done
  done
}

python=.venv/bin/python
export ASAN_SYMBOLIZER_PATH=/usr/bin/llvm-symbolizer-16
case "${1:-}" in
  fast)
    # The longest first, so that no core is idle at the end.
    programs build "" backend_cuda_test
    check models $python tests/models/run.py --build build
    for name in explorer_python explorer_web; do check $name $python tests/$name/run.py --build build; done
    for script in include_order one_definition tactics_are_values kernel_revision device_text; do check $script python3 tests/structure/$script.py; done
    programs build ""
    check fuzz build/bin/fuzz all --seconds=30  # under sanitizers in asan-cli: the backends' sanitizer build takes minutes
    for script in tests/*/run.py; do
      [ -f "$script" ] && check "$(basename "$(dirname "$script")")" $python "$script" --build build
    done
    ;;
  asan)
    export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1
    programs build-asan asan/
    ;;
  asan-cli)
    # An absurd size is an error for us to report, not for the sanitizer's allocator.
    export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
    for only in errors hostile fuzz; do
      check "asan/cli $only" $python tests/cli/run.py --build build-asan --only $only --all
    done
    for only in contradictions operands property random; do
      check "asan/shapes $only" $python tests/shapes/run.py --build build-asan --only $only --all
    done
    check asan/fuzz build-asan/bin/fuzz all --seconds=120
    ;;
  tsan)
    export TSAN_OPTIONS="halt_on_error=1 external_symbolizer_path=$ASAN_SYMBOLIZER_PATH suppressions=$PWD/tests/tsan.supp"
    programs build-tsan tsan/ base_test runtime_test
    ;;
  slow)
    LATHE_TEST_ALL=1 programs build all/ backend_cuda_test  # every kernel that is emulated
    for script in $(grep -l -- '"--all"' tests/*/run.py); do  # the others have done all that they do in `fast`
      check "$(basename "$(dirname "$script")")/all" $python "$script" --build build --all
    done
    for script in tests/*/slow.py; do
      [ -f "$script" ] && check "$(basename "$(dirname "$script")")" $python "$script" --build build
    done
    ;;
  *) sed -n '4,5p' "$0"; exit 2 ;;
esac
all_passed
