# SPDX-License-Identifier: Apache-2.0
"""Resumes checkpoints with a damaged file."""

from __future__ import annotations

import functools
import shutil
import tempfile
from pathlib import Path

from oracle.checkpoint_net import CASES, build, everything, rows, train

import hugectr
from faults.damaged_files import WAYS, content_of
from faults.harness import ROOT, FalseSuccess, Lost
from faults.worker import serve
from hugectr import checkpoints
from hugectr.base import log
from hugectr.checkpoints.inspect import inspect_model

FIXTURES = ROOT / "tests" / "fixtures" / "checkpoints" / "b17f4bf"


@functools.cache
def model_of(case: str) -> hugectr.Model:
    """A model that has trained, but not to the checkpoint."""
    model = build(**CASES[case] | {"processes": 1})
    train(model, 1)
    return model


@functools.cache
def intact_state(case: str) -> object:
    """What the checkpoint holds."""
    model = build(**CASES[case] | {"processes": 1})
    model.resume(FIXTURES / case)
    return state(model)


def state(model: hugectr.Model) -> object:
    """All of it."""
    return everything(model), [rows(model.session, index) for index in range(2)]


def case(name: str, link: str, file: str, way: str) -> None:
    """A file of one link of a chain: verify and resume name it, and the model stays as it was."""
    model = model_of(name)
    before = state(model)
    with tempfile.TemporaryDirectory(prefix="hctr-damaged-") as scratch:
        folder = Path(shutil.copytree(FIXTURES / name, Path(scratch) / "run"))
        intact = content_of(folder)
        newest = checkpoints.latest(folder)
        assert newest is not None
        WAYS[way](folder / link / file)
        if content_of(folder) == intact:
            return  # an empty or uniform file can not be damaged so
        for act in (checkpoints.verify, model.resume):
            try:
                act(newest)
            except (hugectr.DataError, hugectr.InvalidArgument) as error:
                # What is no checkpoint any more, for want of a manifest, is said to be none.
                no_manifest = file == "manifest.json" or "exchanged" in way
                if isinstance(error, hugectr.InvalidArgument) and not no_manifest:
                    raise FalseSuccess(f"called a wrong argument: {error}") from error
                if str(folder / link) not in str(error):
                    raise FalseSuccess(f"the file is not named: {error}") from error
            else:
                # Of earlier links only the rows are used; verify looks at everything.
                unused = link != newest.name and not file.startswith("table")
                if act == checkpoints.verify or not unused or state(model) != intact_state(name):
                    raise FalseSuccess(f"{act.__name__} took it")
                train(model, 1)
                before = state(model)
        if checkpoints.latest(folder) == newest and not inspect_problems(newest, way, file):
            raise FalseSuccess("inspect has no problem with its size")
    if state(model) != before:
        raise Lost("the model changed")
    try:
        model.train()
    except hugectr.InvalidArgument as error:
        raise Lost(f"the model can not be used: {error}") from error


def inspect_problems(path: Path, way: str, file: str) -> bool:
    """Whether ``model inspect`` sees it; it compares sizes alone, so not all can be seen."""
    (report,) = inspect_model(path)
    by_content = way.startswith(("bit", "a block", "a hole", "exchanged", "content", "of another"))
    return bool(report["problems"]) or (by_content and file != "manifest.json")


if __name__ == "__main__":
    log.set_level(log.SILENT)
    serve(case)
