#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a manylinux wheel in dist/. Usage: tools/wheel.sh [hugectr | cuda13] [build options]
#   hugectr   the package, without CUDA: minutes
#   cuda13    hugectr-cuda13, the plug-in for sm_80, sm_90, sm_100 and PTX: about half an hour of
#             processor time. For one architecture: tools/wheel.sh cuda13 -C cmake.define.HUGECTR_CUDA_ARCHS=90
# What comes from other wheels stays there: OpenBLAS, and for the plug-in libhugectr.so. cudart is
# built in; the driver, cuBLAS and NCCL are opened by name at the first use.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$PWD/${VENV:-.venv}/bin/python
export PATH="${python%/*}:$PATH"
what=${1:-hugectr}
[ $# -gt 0 ] && shift
case $what in
  hugectr) project=. options=(-C cmake.define.HUGECTR_CUDA=OFF) excluded=libscipy_openblas.so ;;
  cuda13)
    project=packages/cuda13 excluded=libhugectr.so
    mkdir -p build
    options=(-C "cmake.define.HUGECTR_NVCC=$(PYTHON=$python tools/cuda_toolkit.sh build/cuda-toolkit)")
    ;;
  *) echo "usage: tools/wheel.sh [hugectr | cuda13] [build options]" >&2 && exit 2 ;;
esac
built=build/dist-$what log=build/wheel-$what.log
rm -rf "$built"
mkdir -p "$built" dist
"$python" -m build --wheel --no-isolation --outdir "$built" "${options[@]}" "$@" "$project" \
  >"$log" 2>&1 </dev/null || { cat "$log"; exit 1; }
# The oldest platform tag that what was linked allows; tools/checks/wheels.py says which is too new.
"$python" -m auditwheel repair --plat auto --exclude "$excluded" --wheel-dir "$built/repaired" \
  "$built"/*.whl >>"$log" 2>&1 </dev/null || { cat "$log"; exit 1; }
mv "$built"/repaired/*.whl dist/
ls -1t dist/*.whl | head -1
