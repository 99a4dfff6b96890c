#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The closing line of a test run: how many checks passed. usage: tools/test-summary.sh begin|end
cd "$(dirname "$0")/.."
results=build/test-logs/results
case "$1" in
  begin) mkdir -p build/test-logs && rm -f "$results" build/test-logs/skipped && date +%s >build/test-logs/started ;;
  end)
    passed=$(grep -c '^ok ' "$results")
    failed=$(grep -c '^failed ' "$results")
    skipped=$(awk '{sum += $1} END {print sum + 0}' build/test-logs/skipped)
    [ "$skipped" = 0 ] || echo "of the tests inside of them $skipped were skipped, for reasons that tests/skips.txt lists"
    echo "took $(($(date +%s) - $(cat build/test-logs/started))) s on $(nproc) cores; logs are in build/test-logs"
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ]
    ;;
esac
