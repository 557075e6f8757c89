# SPDX-License-Identifier: Apache-2.0
"""How ``make check-all`` counts: what crashes, checks nothing or is missing has failed."""

import importlib.util
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture
def check_all(tmp_path):
    """The tool in a tree of its own, with the parts that a test writes into ``tools/checks``."""
    (tmp_path / "tools/checks").mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    copied = shutil.copy(TOOLS / "check_all.py", tmp_path / "tools")
    spec = importlib.util.spec_from_file_location("check_all_copied", copied)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def part(check_all, name, body):
    (check_all.ROOT / f"tools/checks/{name}.py").write_text(f"def run():\n    {body}\n")
    outcome = check_all.run_part(Path(sys.executable), name)
    return outcome.passed, outcome.failed


def test_counts_are_those_of_the_part(check_all):
    assert part(check_all, "good", "return 3, 0") == (3, 0)
    assert part(check_all, "bad", "return 3, 2") == (3, 2)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise ValueError('lost')", "ValueError: lost"),
        ("import os; os._exit(0)", ""),
        ("return 0, 0", "checked nothing"),
    ],
)
def test_a_part_that_does_not_end_well_has_failed(check_all, capsys, body, said):
    assert part(check_all, "odd", body)[1] == 1
    assert said in capsys.readouterr().out


def test_a_part_without_a_file_has_failed(check_all, capsys):
    assert check_all.run_part(Path(sys.executable), "absent").failed == 1
    assert "tools/checks/absent.py is missing" in capsys.readouterr().out


@pytest.fixture
def tracked(check_all):
    """A file of the tree, and how git is asked."""
    file = check_all.ROOT / "code.py"
    file.write_text("a = 1\n")
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *words], cwd=check_all.ROOT, check=True, capture_output=True)
    return file


@pytest.mark.parametrize(
    "change",
    [
        "f.write_text('a = 2')",
        "f.unlink()",
        "(f.rename(f.with_suffix('.old')), f.with_suffix('.old').rename(f))",
    ],
)
def test_a_tree_that_changes_meanwhile_is_no_commit(check_all, tracked, capsys, change):
    time.sleep(0.05)  # a file has the time of the kernel's tick
    said = f"from pathlib import Path; f = Path({str(tracked)!r}); {change}; return 3, 0"
    assert part(check_all, "odd", said) == (3, 1)
    assert "code.py; run it in a clone that nobody works in" in capsys.readouterr().out


def test_a_tree_that_stays_and_its_record_are_a_commit(check_all, tracked):
    time.sleep(0.05)
    said = f"open({str(check_all.RECORD)!r}, 'w').close(); return 3, 0"
    assert part(check_all, "good", said) == (3, 0)


def test_only_the_parts_of_the_list_can_be_named(check_all, capsys):
    assert check_all.main(["no_such_part"]) == 2
    assert "no such part: no_such_part" in capsys.readouterr().out


def test_every_part_of_the_list_has_its_file_and_the_other_way_round():
    spec = importlib.util.spec_from_file_location("check_all_read", TOOLS / "check_all.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    files = {path.stem for path in (TOOLS / "checks").glob("*.py")}
    assert files == set(module.PARTS)
    assert len(module.PARTS) == len(files)


def test_the_record_has_every_part_and_their_sum(check_all, monkeypatch):
    monkeypatch.setattr(check_all, "PARTS", ("one", "two", "three"))
    outcomes = [check_all.Outcome("one", 3, 0, 1.0), check_all.Outcome("two", 4, 1, 2.0)]
    text = check_all.record(outcomes)
    assert "| one | 3 | 0 | 1 |" in text
    assert "| three | not run |" in text
    assert "| all | 7 | 1 | 3 |" in text


def test_a_part_that_runs_again_replaces_its_row_and_no_other(check_all, monkeypatch):
    monkeypatch.setattr(check_all, "PARTS", ("one", "two"))
    first = [check_all.Outcome(name, 3, 1, 1.0, "abc1234", "2026-01-01") for name in ("one", "two")]
    check_all.RECORD.write_text(check_all.record(first))
    again = check_all.Outcome("two", 4, 0, 2.0, "def5678 and changes", "2026-01-02")
    check_all.RECORD.write_text(check_all.record([again]))
    assert check_all.recorded() == {"one": first[0], "two": again}
    assert "| all | 7 | 1 | 3 |" in check_all.RECORD.read_text()
