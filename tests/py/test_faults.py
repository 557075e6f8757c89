# SPDX-License-Identifier: Apache-2.0
"""A short part of every class of faults; ``make faults`` runs all of them."""

import json
import sys
import types
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1]))

from faults import run as runner  # found through the line above
from faults.harness import Case, Lost
from faults.run import CLASSES, load


@pytest.mark.parametrize("name", CLASSES)
def test_faults_are_held(name, tmp_path):
    for number, case in enumerate(load(name).cases(full=False)):
        folder = tmp_path / str(number)
        folder.mkdir()
        case.run(folder)


def test_a_case_that_fails_itself_is_counted_and_ends_no_other(tmp_path, monkeypatch, capsys):
    def fails(_folder):
        raise TypeError("no figures")

    def breaks(_folder):
        raise Lost("gone")

    cases = [Case("a", fails), Case("b", breaks), Case("c", lambda _folder: None)]
    module = types.SimpleNamespace(NAME="one", cases=lambda full: cases)
    monkeypatch.setattr(runner, "load", lambda name: module)
    found = tmp_path / "counts.json"
    monkeypatch.setattr(sys, "argv", ["run.py", "--only", "one", "--json", str(found)])
    assert runner.main() == 1
    assert "TypeError: no figures" in capsys.readouterr().out
    (row,) = json.loads(found.read_text())
    assert (row["cases"], row["not checked"], row["silent loss"]) == (3, 1, 1)
