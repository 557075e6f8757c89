#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs tests/torch under the oldest torch that hugectr.torch takes and under the newest, each in an
# environment of its own (.venv-torch-oldest, .venv-torch-newest). Usage: tools/test_torch.sh [pytest options]
#
#   HUGECTR_TEST_DEVICE=cuda    the tables and models of the tests on the first CUDA device
#   PIP_INDEX_URL=URL           where pip finds torch, where its own settings do not say: there are wheels
#                               without CUDA, which are smaller
#   HUGECTR_TORCH_REPORTS=FOLDER   JUnit reports go there, torch-oldest.xml and torch-newest.xml
#   TORCH_PYTHON=PROGRAM        one Python that has torch, numpy, pyarrow, rich, lightning and pytest, instead
#                               of both
set -euo pipefail
cd "$(dirname "$0")/.."
tests=tests/torch
[[ $# -eq 0 ]] || tests=

say() { printf '==> %s\n' "$*"; }

# PYTHON NAME [pytest options]
run() {
  local report=${HUGECTR_TORCH_REPORTS:+$HUGECTR_TORCH_REPORTS/torch-$2.xml}
  say "hugectr.torch under torch $("$1" -c 'import torch; print(torch.__version__)')"
  PYTHONPATH=$PWD "$1" -m pytest -q ${report:+"--junit-xml=$report"} ${tests:+"$tests"} "${@:3}"
}

# Makes an environment with a version of torch, unless it is there.
environment() {
  local folder=$1
  local packages=("$2" "numpy>=1.26,<3" "pyarrow>=17,<27" "rich>=13,<16"
    "scipy-openblas32>=0.3.30,<0.4" "pytest>=9,<10" setuptools lightning)
  if [[ ! -f $folder/made-of || $(<"$folder/made-of") != "${packages[*]}" ]]; then
    say "making $folder with $2"
    "${VENV:-.venv}/bin/python" -m venv --clear "$folder"
    "$folder/bin/pip" install -q "${packages[@]}"
    printf '%s' "${packages[*]}" >"$folder/made-of"
  fi
}

if [[ -n ${TORCH_PYTHON:-} ]]; then
  run "$TORCH_PYTHON" given "$@"
  exit
fi
environment .venv-torch-oldest "torch==2.4.*"
environment .venv-torch-newest "torch>=2.4"
failed=0
for name in oldest newest; do
  run ".venv-torch-$name/bin/python" "$name" "$@" || failed=1
done
exit $failed
