#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the development environment: checks the compiler, installs missing Debian packages when the
# user may, creates the virtual environment and installs what pyproject.toml names. Does nothing
# when all of it is there. Usage: tools/setup.sh [tests]   ("tests": GoogleTest is needed too)
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${VENV:-.venv}
want=${1:-}

say() { printf '==> %s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Prints the first Python of version 3.11 or later. A name on the PATH may be a dead shim: run it.
find_python() {
  local name
  for name in ${PYTHON:-} python3 python3.11 python3.12 python3.13 python3.14 python; do
    if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
      command -v "$name"
      return
    fi
  done
}

# Installs Debian packages if that can be done without asking anybody; says how otherwise.
install_packages() {
  local sudo=""
  if ! command -v apt-get >/dev/null; then
    fail "missing: $* (names of the Debian packages); install them with your system's package manager."
  fi
  if [ "$(id -u)" != 0 ]; then
    sudo="sudo"
    sudo -n true >/dev/null 2>&1 || fail "missing: $*. Run: sudo apt-get install -y $*"
    sudo="sudo -n"
  fi
  say "installing Debian packages: $*"
  local install="$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends"
  if ! $install "$@" >/dev/null 2>&1 </dev/null; then
    $sudo apt-get update -qq >/dev/null 2>&1 </dev/null || true
    $install "$@" >/dev/null </dev/null || fail "could not install: $*. Run: sudo apt-get install -y $*"
  fi
}

python=$(find_python)
if [ -z "$python" ]; then
  found=$(python3 --version 2>/dev/null || echo "no Python")
  fail "Python 3.11 or later is needed, found $found. Install one (Debian 12+, Ubuntu 24.04+: sudo apt-get install python3 python3-venv python3-dev) or name it: make PYTHON=/path/to/python3.11"
fi

compiler=${CXX:-c++}
command -v "$compiler" >/dev/null || compiler=g++
command -v "$compiler" >/dev/null || fail "no C++ compiler. Run: sudo apt-get install g++"
echo '#include <bit>
#include <concepts>
static_assert(std::bit_cast<unsigned>(1.0f) != 0);' | "$compiler" -std=c++20 -fsyntax-only -x c++ - 2>/dev/null ||
  fail "$compiler does not compile C++20; g++ 11 or clang++ 14 or later is needed (set CXX to choose one)."

missing=()
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
"$python" -c 'import ensurepip, venv' >/dev/null 2>&1 || missing+=("python$version-venv")
"$python" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' || missing+=("python$version-dev")
if [ "$want" = tests ]; then
  echo '#include <gtest/gtest.h>' | "$compiler" -std=c++20 -E -x c++ - >/dev/null 2>&1 || missing+=(libgtest-dev)
fi
if [ ${#missing[@]} -gt 0 ]; then
  install_packages "${missing[@]}"
fi

if ! "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
  say "creating $venv with $("$python" --version)"
  rm -rf "$venv"
  "$python" -m venv "$venv" || fail "could not create $venv. Run: sudo apt-get install -y python$version-venv"
fi

wanted=$("$venv/bin/python" tools/requirements.py)
stamp="$venv/installed-requirements.txt"
if [ "$wanted" != "$(cat "$stamp" 2>/dev/null)" ]; then
  say "installing Python packages into $venv (a few minutes the first time)"
  printf '%s\n' "$wanted" >"$venv/requirements.txt"
  "$venv/bin/python" -m pip install -qq --disable-pip-version-check -r "$venv/requirements.txt" </dev/null
  mv "$venv/requirements.txt" "$stamp"
fi

# `import hugectr` and the `hugectr` command use this tree; the compiled parts are put into it by
# tools/build.sh, so a change of a .py file needs no step and a change of C++ only the build.
stamp="$venv/installed-pyproject.toml"
if ! cmp -s pyproject.toml "$stamp"; then
  "$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation \
    --config-settings=wheel.cmake=false --config-settings=wheel.py-api=py3 --editable . </dev/null
  cp pyproject.toml "$stamp"
fi
