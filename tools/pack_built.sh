#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packs what is built in build/gpu for a machine without compilers: the package's libraries, OpenBLAS
# as its wheel has it, the C++ tests and the benchmarks, some 16 MB. There, in a checkout of the same
# commit: tar xJf ARCHIVE; HUGECTR_BUILT=1 .ci/gpu --tests OUT_DIR
# Usage: tools/pack_built.sh ARCHIVE [--libraries]   (without tests and benchmarks)
# Environment: PYTHON, the interpreter that build/gpu was configured with.
set -euo pipefail
cd "$(dirname "$0")/.."
archive=$(realpath -m "${1:?usage: tools/pack_built.sh ARCHIVE [--libraries]}")
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cmake --install build/gpu --prefix "$folder" --component package >"$folder/install.log"
rm "$folder/install.log"
if [ "${2:-}" = --libraries ]; then rm -rf "$folder/hugectr/include" "$folder/hugectr/lib"; fi
openblas=$("$python" -c 'import pathlib, scipy_openblas32 as o; print(pathlib.Path(o.__file__).parent)')
mkdir -p "$folder/scipy_openblas32/lib"
cp "$openblas"/*.py "$folder/scipy_openblas32"
cp "$openblas/lib/libscipy_openblas.so" "$folder/scipy_openblas32/lib"
if [ "${2:-}" != --libraries ]; then
  (cd build/gpu && find tests/cuda benchmarks/cuda -maxdepth 1 -type f \
    \( -name cuda_test -o -name '*_bench' -o -name '*.so' \) -printf '%p\n') |
    while read -r file; do install -D "build/gpu/$file" "$folder/build/gpu/$file"; done
fi
find "$folder" -type f \( -name '*.so' -o -perm -u+x \) -exec strip --strip-unneeded {} +
tar c -C "$folder" . | xz -T0 >"$archive"
ls -l "$archive"
