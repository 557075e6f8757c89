#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fuzzes a parser under AddressSanitizer and UBSan. Usage: tools/fuzz.sh TARGET [SECONDS] [option...]
#   norm, raw, list, saved, rows   C++ targets of tests/fuzz (libFuzzer): Norm files, Raw files, file
#                      lists, manifests of checkpoints as C++ programs read them, rows on disk
#   metadata, config, manifest   Python targets (atheris): _metadata.json, JSON configs and graphs,
#                      manifests of checkpoints
#   protocol           Python target: what processes of a job read from each other
# Options go to libFuzzer. What is found lies in build/fuzz/TARGET: corpus/, and crash-*, timeout-*,
# oom-* that `tools/fuzz.sh TARGET 0 FILE` runs again.
# Debian, Ubuntu: sudo apt-get install clang libclang-rt-14-dev
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
venv=$root/${VENV:-.venv}
target=${1:?usage: tools/fuzz.sh norm|raw|list|saved|rows|metadata|config|manifest|protocol [SECONDS] [option...]}
seconds=${2:-600}
shift $(($# < 2 ? $# : 2))
work=build/fuzz/$target
mkdir -p "$work/corpus"

most=4096

case $target in
norm | raw | list | saved | rows)
  { [ "$target" = saved ] || [ "$target" = rows ]; } && most=16384
  if ! command -v clang++ >/dev/null; then
    echo "tools/fuzz.sh: no clang++: sudo apt-get install clang libclang-rt-14-dev" >&2
    exit 1
  fi
  TARGETS=fuzz VENV=${VENV:-.venv} tools/build.sh fuzz
  if [ "$target" = saved ]; then  # what Python wrote
    for file in tests/fixtures/checkpoints/*/*/*/manifest.json; do
      cp "$file" "$work/corpus/$(echo "$file" | cut -d/ -f4-6 | tr / -)"
    done
  else
    build/fuzz/tests/fuzz/write_seeds "$target" "$work/corpus"
  fi
  command=("$root/build/fuzz/tests/fuzz/${target}_fuzz")
  ;;
metadata | config | manifest | protocol)
  # Not a requirement of the project: kept beside the environment.
  if [ ! -d build/fuzz/python/atheris ]; then
    "$venv/bin/python" -m pip install --quiet --target build/fuzz/python 'atheris>=3,<4'
  fi
  export PYTHONPATH=$root/build/fuzz/python:$root${PYTHONPATH:+:$PYTHONPATH}
  command=("$venv/bin/python" "$root/tests/fuzz/${target}_fuzz.py")
  most=16384
  "${command[@]}" --seeds "$work/corpus"
  ;;
*)
  echo "tools/fuzz.sh: '$target' is no target, allowed are norm, raw, list, saved, rows, metadata, config, manifest, protocol" >&2
  exit 1
  ;;
esac

export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:allocator_may_return_null=0
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 OPENBLAS_NUM_THREADS=1
cd "$work"
if [ "$seconds" = 0 ]; then
  exec "${command[@]}" -timeout=5 "$@"
fi
exec "${command[@]}" -max_total_time="$seconds" -timeout=5 -malloc_limit_mb=256 -rss_limit_mb=2048 \
  -max_len=$most -print_final_stats=1 "$@" corpus
