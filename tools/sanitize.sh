#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and runs all C++ tests under AddressSanitizer + UBSan, then under ThreadSanitizer.
# Usage: tools/sanitize.sh [asan] [tsan]
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$PWD/${VENV:-.venv}
here=$PWD/tools
status=0

export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1
export LSAN_OPTIONS=suppressions=$here/sanitizers/lsan.txt:print_suppressions=0
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export TSAN_OPTIONS=suppressions=$here/sanitizers/tsan.txt:halt_on_error=1:second_deadlock_stack=1
# OpenBLAS is not instrumented: its own worker threads are outside of what the sanitizers can judge.
export OPENBLAS_NUM_THREADS=1

for preset in "${@:-asan tsan}"; do
  for name in $preset; do
    VENV=${VENV:-.venv} tools/build.sh "$name"
    printf '==> C++ tests under %s\n' "$name"
    log=build/$name/ctest.log
    if "$venv/bin/ctest" --test-dir "build/$name" -j"$(nproc)" --timeout 900 --output-on-failure \
      --no-tests=error >"$log" 2>&1; then
      grep -E 'tests passed' "$log"
    else
      grep -vE ' Passed |    Start ' "$log"
      status=1
    fi
  done
done
exit $status
