# SPDX-License-Identifier: Apache-2.0
"""The examples run as they stand, stay short, and learn."""

from pathlib import Path

import pytest
from oracle.samples import (
    ARGUMENTS,
    EXAMPLES,
    NAMES,
    check,
    copied_to,
    figures,
    run,
    script,
)

JSON_TWINS = ("wdl", "deepfm", "dcn", "dlrm", "criteo", "criteo_multi_slots")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied_to(tmp_path_factory.mktemp("examples"))


def _run(folder: Path, *arguments: str) -> str:
    return run(folder, *arguments, CUDA_VISIBLE_DEVICES="")


def test_every_script_is_tested() -> None:
    shared = {"arguments", "data", "generated", "real", "training"}
    scripts = {path.stem for path in EXAMPLES.glob("*.py")} - shared
    scripts = {name for name in scripts if not name.startswith("torch_")}  # tests/torch
    assert scripts == set(NAMES) - set(ARGUMENTS)
    for each in scripts:
        assert len((EXAMPLES / f"{each}.py").read_text().splitlines()) <= 80


@pytest.mark.parametrize("name", NAMES)
def test_script_learns(name: str, folder: Path) -> None:
    """What the same net learns in PyTorch, and no more than the signal."""
    check(name, figures(_run(folder, *script(name))))


def test_the_stream_s_table_does_not_grow_and_is_followed(folder: Path) -> None:
    """As many rows as three days use, whatever days there are; the follower's are the trainer's."""
    lines = _run(folder, "streaming.py", "--steps", "192").splitlines()
    found = {line.split(" AUC ")[0]: line.split(" AUC ")[1] for line in lines if " AUC " in line}
    assert found["evaluation"] == found["follower:"]
    rows = [int(line.split()[-2]) for line in lines if " rows" in line and "AUC" in line]
    assert max(rows) < 2000 + 1000 + 4 * 300 < 2000 + 1000 + 5 * 300


@pytest.mark.parametrize("name", JSON_TWINS)
def test_json_twin(name: str, folder: Path) -> None:
    _run(folder, "-c", "from data import *; planted_files(); one_slot_files()")
    program = (
        "import hugectr\n"
        "solver = hugectr.solver_parser_helper(\n"
        "    batchsize=1024, batchsize_eval=1024, max_eval_batches=16, repeat_dataset=True)\n"
        f"sess = hugectr.Session(solver, '{name}.json')\n"
        "for _ in range(400):\n"
        "    sess.train()\n"
        "print(dict(sess.evaluation())['AUC'])\n"
    )
    least = 0.8 if name == "criteo" else 0.85
    assert float(_run(folder, "-c", program).splitlines()[-1]) > least


def _criteo_lines(count: int) -> str:
    """As the public files: label, 13 integers, 26 hexadecimal categories, some of them empty."""
    rows = (
        [n % 2, *((n * k) % 50 for k in range(12)), "", *(f"{n * k % 97:08x}" for k in range(26))]
        for n in range(count)
    )
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)


def _rating_lines(count: int) -> str:
    """As MovieLens' ``ratings.csv``: a header, then users, items, ratings and times."""
    rows = (f"{n % 120 + 1},{n * n % 83 + 1},{n % 9 / 2 + 0.5},{1000 + n}\n" for n in range(count))
    return "userId,movieId,rating,timestamp\n" + "".join(rows)


@pytest.mark.parametrize("name", ["wdl", "dcnv2", "criteo"])
def test_criteo_s_files(name: str, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text(_criteo_lines(3000))
    (tmp_path / "eval.txt").write_text(_criteo_lines(1100))
    files = [str(tmp_path / "train.txt"), str(tmp_path / "eval.txt")]
    found = figures(_run(folder, f"{name}.py", "--steps", "3", "--data", *files))
    assert set(found) == {"AUC"}


@pytest.mark.parametrize("name", ["ncf", "din", "sasrec"])
def test_files_of_ratings(name: str, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "ratings.csv").write_text(_rating_lines(3000))
    arguments = ["--steps", "3", "--data", str(tmp_path / "ratings.csv")]
    found = figures(_run(folder, f"{name}.py", *arguments))
    assert found["AUC"] > 0
    assert ("HitRate@10" in found) == (name != "din")


@pytest.mark.parametrize(
    ("name", "content", "files", "text"),
    [
        ("ncf", "user,item\n1,2\n", 1, "lines are user, item, rating, time"),
        ("din", "nonsense\n", 1, "lines are user, item, rating, time"),
        ("dcnv2", "", 0, "takes the names of Criteo's files"),
        ("wdl", _criteo_lines(10), 1, "takes two files, TRAIN and EVAL: 1 given"),
        ("streaming", "", 1, "the days are generated: leave out --data"),
    ],
)
def test_data_that_an_example_does_not_take(
    name: str, content: str, files: int, text: str, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "data.txt").write_text(content)
    program = f"import runpy, sys; sys.argv[0] = '{name}.py'; sys.path.insert(0, '.')\n"
    program += "try:\n    runpy.run_path(sys.argv[0], run_name='__main__')\n"
    program += "except SystemExit as error:\n    print('said:', error)\n"
    given = [str(tmp_path / "data.txt")] * files
    assert text in _run(folder, "-c", program, "--data", *given).split("said:")[1]


def test_a_stream_of_few_steps_is_one_day(folder: Path) -> None:
    said = _run(folder, "streaming.py", "--steps", "3", "--summary")
    assert "of day 1 with" in said
    assert "of day 2" not in said
    assert "BinaryCrossEntropyLoss" in said


def test_the_page_names_every_script() -> None:
    shared = {"arguments", "data", "generated", "real", "training"}
    table = (EXAMPLES / "README.md").read_text().split("\n| example |")[0]
    scripts = {path.stem for path in EXAMPLES.glob("*.py")} - shared
    assert {name for name in scripts if f"`{name}.py`" not in table} == set()
