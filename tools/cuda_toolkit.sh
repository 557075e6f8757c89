#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the path of an nvcc 13: the machine's, or one from pip wheels put into FOLDER.
# Usage: tools/cuda_toolkit.sh FOLDER
set -euo pipefail
folder=$(realpath -m "${1:?usage: tools/cuda_toolkit.sh FOLDER}")
python=${PYTHON:-.venv/bin/python}

for nvcc in "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" "$(command -v nvcc || true)"; do
  if [ -x "$nvcc" ] && "$nvcc" --version | grep -q 'release 13\.' && [ -z "${HUGECTR_PIP_NVCC:-}" ]; then
    echo "$nvcc"
    exit
  fi
done
nvcc=$folder/nvidia/cu13/bin/nvcc
if [ ! -x "$nvcc" ]; then
  # 13.0, so that the oldest driver of CUDA 13 suffices. cuBLAS and NCCL are opened at run time and
  # not needed to build.
  "$python" -m pip install -q --disable-pip-version-check --target "$folder" \
    'cuda-toolkit[nvcc,cudart,cccl]==13.0.*' >&2
  # Names that CMake and nvcc look for and wheels lack.
  ln -sfn lib "$folder/nvidia/cu13/lib64"
  ln -sfn libcudart.so.13 "$folder/nvidia/cu13/lib/libcudart.so"
fi
echo "$nvcc"
