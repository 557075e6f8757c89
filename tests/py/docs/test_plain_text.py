# SPDX-License-Identifier: Apache-2.0
"""Formulas in docstrings are no markup of the site; what is code stays as it is."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).resolve().parents[3] / "docs/_ext/plain_text.py"


@pytest.fixture
def escaped(monkeypatch):
    """The function, without Sphinx, which only the environment of the site has."""
    sphinx = ModuleType("sphinx.application")
    sphinx.Sphinx = object
    monkeypatch.setitem(sys.modules, "sphinx", ModuleType("sphinx"))
    monkeypatch.setitem(sys.modules, "sphinx.application", sphinx)
    spec = importlib.util.spec_from_file_location("plain_text", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.escaped


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sum |w| of ``|x|``", r"sum \|w\| of ``|x|``"),
        ("``a |\nb|`` and |c|", "``a |\nb|`` and \\|c\\|"),
        ("w *= 2, **more, *args", r"w \*= 2, **more, *args"),
        ("    >>> a | b\n|c|", "    >>> a | b\n\\|c\\|"),
    ],
)
def test_signs_outside_of_code(escaped, text, expected):
    assert escaped(text) == expected
