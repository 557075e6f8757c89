#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds one preset incrementally. Usage: tools/build.sh PRESET [cmake options]
# The library and the Python module of the presets that have one are put into the source package.
# TARGETS names what is built, by default everything.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$PWD/${VENV:-.venv}
preset=$1
shift
folder=build/$preset
read -ra targets <<<"${TARGETS:-}"
export PATH="$venv/bin:$PATH" NINJA_STATUS='[%f/%t] '
mkdir -p "$folder"

say() { printf '==> %s\n' "$*"; }

# Off a terminal ninja prints a line a file: keep every tenth part of the way, and all that is no
# progress line (warnings, errors).
progress() {
  awk '/^\[[0-9]+\/[0-9]+\] / { split(substr($1, 2), n, "/"); p = int(10 * n[1] / (n[2] + 0))
                                if (p != last) { printf "    %d %%\n", 10 * p; fflush() } last = p; next }
       /^ninja: (Entering|no work)/ { next } { print; fflush() }'
}

if ! cmake --preset "$preset" -DPython_EXECUTABLE="$venv/bin/python" "$@" >"$folder/configure.log" 2>&1; then
  cat "$folder/configure.log" >&2
  exit 1
fi
say "building $folder"
if [ -t 1 ]; then
  ninja -C "$folder" "${targets[@]}"
else
  ninja -C "$folder" "${targets[@]}" </dev/null | progress
fi
if grep -q '^HUGECTR_PYTHON:[A-Z]*=ON' "$folder/CMakeCache.txt"; then
  cmake --install "$folder" --prefix "$PWD" --component package >"$folder/install.log"
fi
