# SPDX-License-Identifier: Apache-2.0
"""Packages whose names are loaded at their first use say the same names everywhere."""

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import hugectr
from hugectr.base.lazy import lazy_names

PACKAGE = Path(hugectr.__file__).parent
#: What takes long to load and is not needed to build and train a model from files of the core.
HEAVY = ("pyarrow", "rich", "multiprocessing", "pandas", "matplotlib", "jinja2")


def lazy_packages():
    """Every module that has lazy names."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name != "lazy.py" and "lazy_names(" in path.read_text():
            module = path.relative_to(PACKAGE.parent).with_suffix("").as_posix().replace("/", ".")
            yield module.removesuffix(".__init__")


def for_type_checkers(module):
    """Name -> module, as the block below ``if TYPE_CHECKING`` says it."""
    tree = ast.parse(inspect.getsource(module))
    said = {}
    for block in tree.body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for node in block.body:
                if isinstance(node, ast.ImportFrom):
                    said |= {alias.name: node.module for alias in node.names}
    return said


@pytest.mark.parametrize("name", list(lazy_packages()))
def test_type_checkers_are_told_the_same(name):
    module = importlib.import_module(name)
    said = for_type_checkers(module)
    assert said, "nothing below TYPE_CHECKING"
    for one, home in said.items():
        assert getattr(module, one) is getattr(importlib.import_module(home), one)
    lazy = set(module.__dir__()) - {key for key in vars(module) if key not in said}
    assert lazy == set(said)
    assert set(said) <= set(module.__all__)


def run(code):
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def test_import_loads_nothing_heavy():
    assert run(f"import hugectr, sys; print(*(m for m in {HEAVY} if m in sys.modules))") == []


def test_names_that_were_not_used_are_there():
    (there,) = run("import hugectr; print('from_frame' in dir(hugectr.data))")
    assert there == "True"
    assert run("import hugectr; print(hugectr.data.norm.__name__)") == ["hugectr.data.norm"]


def test_a_name_that_is_not_there_is_an_attribute_error():
    load, _ = lazy_names("hugectr.data", {"hugectr.data.arrays": ("MemoryDataset",)})
    with pytest.raises(AttributeError, match=r"'hugectr\.data' has no attribute 'Memory'"):
        load("Memory")
