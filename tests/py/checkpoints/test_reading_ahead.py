# SPDX-License-Identifier: Apache-2.0
"""Threads that read ahead end with who uses them, not when the garbage collector comes."""

import ast
import gc
import threading
from pathlib import Path

import pytest
from oracle.fake_model import FakeModel
from oracle.thread_group import results_of, run_job

import hugectr
from hugectr import checkpoints
from hugectr.checkpoints.load import TableReader

ROWS = {(0, key): key for key in range(200)}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr("hugectr.checkpoints.folder.CHUNK", 700)


def save(folder):
    def work(group):
        model = FakeModel(group, 2)
        model.train(ROWS, 1)
        model.save(folder)

    results_of(2, work)


def reading_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("checkpoint")]


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("how", ["full", "damaged", "interrupted"])
def test_an_error_in_the_middle_leaves_no_thread(tmp_path, monkeypatch, processes, how):
    save(tmp_path)
    if how == "damaged":
        file = checkpoints.latest(tmp_path) / "table0.vector.1-of-2"
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    calls = []

    def load(group):
        model = FakeModel(group, 2)
        if how == "full":
            model.session.table(0).budget = 40
        if how == "interrupted":
            table = model.session.table(0)
            real = table.load

            def interrupted(*arguments):
                calls.append(1)
                if len(calls) == 4:
                    raise KeyboardInterrupt
                real(*arguments)

            table.load = interrupted
        model.resume(tmp_path)

    gc.disable()  # what is left to it stays
    try:
        errors = [error for _, error in run_job(processes, load)]  # with all their frames
        assert any(errors)
        assert not reading_threads()
    finally:
        gc.enable()


def test_who_reads_a_part_ends_its_thread(tmp_path):
    save(tmp_path)
    path = checkpoints.latest(tmp_path)
    reader = TableReader(path, checkpoints.read_manifest(path), 0)
    with reader.ahead(reader.units) as chunks:
        first = next(chunks)
        assert reading_threads()
    assert not reading_threads()
    with reader.ahead(reader.units) as chunks:
        found = list(chunks)
    assert len(found) == len(reader.units)
    assert found[0]["key"].tolist() == first["key"].tolist()
    assert sum(len(chunk["key"]) for chunk in found) == len(ROWS)
    with reader.ahead([]) as chunks:
        assert list(chunks) == []


def holding(tree):
    """Generators that a ``with`` or ``finally`` waits in, for as long as they are not ended."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if any("contextmanager" in ast.unparse(word) for word in function.decorator_list):
            continue
        for block in ast.walk(function):
            waits = isinstance(block, ast.With | ast.AsyncWith) or (
                isinstance(block, ast.Try) and block.finalbody
            )
            if waits and any(isinstance(n, ast.Yield | ast.YieldFrom) for n in ast.walk(block)):
                yield function.name


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("def f():\n with a() as b:\n  yield b", ["f"]),
        ("def f():\n try:\n  yield 1\n finally:\n  g()", ["f"]),
        ("@contextmanager\ndef f():\n with a() as b:\n  yield b", []),
        ("def f():\n with a() as b:\n  c = b()\n yield c", []),
    ],
)
def test_what_such_a_generator_is(code, found):
    assert list(holding(ast.parse(code))) == found


def test_no_generator_of_the_package_holds_something_until_it_is_collected():
    package = Path(hugectr.__file__).parent
    found = []
    for path in package.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found += [f"{path.relative_to(package)}: {name}" for name in holding(tree)]
        found += [
            f"{path.relative_to(package)}: __del__"
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef) and node.name == "__del__"
        ]
    assert found == []
