# SPDX-License-Identifier: Apache-2.0
"""The check against code in data passes on this tree and finds each way to run such code."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load_check():
    path = ROOT / "tools/check_no_code_from_data.py"
    spec = importlib.util.spec_from_file_location("check_no_code_from_data", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check = load_check()


@pytest.mark.skipif(not (ROOT / "tools").exists(), reason="not run from a source tree")
def test_this_tree_runs_no_data():
    assert check.check(ROOT) == []


@pytest.mark.parametrize(
    "text",
    [
        "import pickle\n",
        "import pickle as harmless\n",
        "from pickle import loads as parse\n",
        "def f():\n    import marshal, json\n",
        "import shelve\n",
        "import importlib\nimportlib.import_module('pickle')\n",
        "np.load(path, allow_pickle=True)\n",
        "np.load(path, allow_pickle=flag)\n",
        "np.load(path, None, True)\n",
        "torch.load(path)\n",
        "torch.load(path, weights_only=False)\n",
        "torch.load(path, weights_only=maybe)\n",
        "from torch import load\n",
        "yaml.load(text)\n",
        "yaml.unsafe_load(text)\n",
        "eval(text)\n",
        "exec(text)\n",
        "run = eval\n",
        "import builtins\nbuiltins.exec(text)\n",
        "__import__(name)\n",
        "from mpi4py import MPI\nMPI.COMM_WORLD.bcast(1)\n",
        "from mpi4py import MPI\ncomm.recv()\n",
    ],
)
def test_each_way_is_found(tmp_path, text):
    path = tmp_path / "hugectr" / "a.py"
    path.parent.mkdir()
    path.write_text(text)
    assert check.check(tmp_path)


@pytest.mark.parametrize(
    "text", ["import pickle\n", "x = eval(y)\n", "np.load(a, allow_pickle=1)\n"]
)
def test_each_way_is_found_in_cython(tmp_path, text):
    path = tmp_path / "hugectr" / "a.pyx"
    path.parent.mkdir()
    path.write_text("cdef int a\n" + text)
    assert check.check(tmp_path)


def test_what_is_harmless_passes(tmp_path):
    path = tmp_path / "hugectr" / "a.py"
    path.parent.mkdir()
    path.write_text(
        "np.load(path, allow_pickle=False)\nnp.load(path)\nmodel.eval()\nre.compile('a')\n"
        "torch.load(path, weights_only=True)\nmodel.compile()\nyaml.safe_load(text)\n"
        "from mpi4py import MPI\ncomm.Bcast(buffer)\ncomm.Recv(buffer)\n"
    )
    assert check.check(tmp_path) == []
