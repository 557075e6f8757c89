# SPDX-License-Identifier: Apache-2.0
"""Loads checkpoints whose manifest was edited, within bounds of memory."""

from __future__ import annotations

import functools
import resource
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from oracle.checkpoint_net import CASES, build, everything, rows, train

import hugectr
from faults.harness import ROOT, FalseSuccess, Lost
from faults.manifest_edits import edits, is_the_same
from faults.worker import serve
from hugectr import checkpoints
from hugectr.base import log
from hugectr.checkpoints.inspect import inspect_model
from hugectr.checkpoints.merge import links_of

FIXTURES = ROOT / "tests" / "fixtures" / "checkpoints" / "b17f4bf"
MEMORY = 1 << 30  # bytes that a case may take besides

Model = hugectr.Model


def state(model: Model) -> tuple[object, object]:
    """All of it."""
    return everything(model), values(model)


def values(model: Model) -> object:
    """Rows and dense values: what no edit of a manifest may change."""
    kept = ("weights", "states", "statistics")
    found = everything(model)
    return [found[name] for name in kept], [rows(model.session, index) for index in range(2)]


@functools.cache
def base(name: str) -> tuple[Path, str, Model, object]:
    """A folder of checkpoints, the link to edit, a model, and what is loaded from it."""
    case = name.partition("/")[0]
    settings = CASES["adam_local" if case == "new" else case] | {"processes": 1}
    folder = Path(SCRATCH / case)
    if case == "new":
        writer = build(**settings)
        train(writer, 3)
        writer.save(folder)
    elif not folder.is_dir():
        shutil.copytree(FIXTURES / case, folder)
    links = [path.name for _, path in checkpoints.published(folder)]
    model = build(**settings)
    model.resume(folder)
    wanted = values(model)
    # Away from the checkpoint, so that loading it and leaving the model are not the same.
    train(model, 1)
    return folder, links[int(name.partition("/")[2] or -1)], model, wanted


def bound_memory() -> None:
    """No more address space than is taken now, and a little."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))


@functools.cache
def contents(name: str) -> tuple[bytes, dict[str, Callable[[], bytes]]]:
    """The manifest of a base and all edits of it."""
    folder, link, _, _ = base(name)
    content = (folder / link / "manifest.json").read_bytes()
    return content, edits(content)


def case(name: str, edit: str) -> None:
    """Read, verify, inspect and resume; all of them refuse alike, or none does."""
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    folder, link, model, wanted = base(name)
    content, ways = contents(name)
    edited = ways[edit]()
    file = folder / link / "manifest.json"
    before = state(model)
    bound_memory()
    try:
        file.write_bytes(edited)
        newest = checkpoints.latest(folder)
        assert newest is not None
        refused, misfit = (refusal(act, newest) for act in (checkpoints.verify, links_of))
        (report,) = inspect_model(newest)
        if misfit != "".join(report["problems"]) or (misfit and not refused):
            raise FalseSuccess(f"verify: {refused}, sizes: {misfit}, inspect: {report['problems']}")
        if not refused and edit.startswith("text") and not is_the_same(content, edited):
            raise FalseSuccess("a broken text was read")
        resume(model, newest, before, wanted, bool(refused))
    finally:
        file.write_bytes(content)
    if not refused:  # away from the checkpoint again
        model.resume(newest)
        train(model, 1)


def refusal(act: Callable[[Path], object], path: Path) -> str:
    """What is said against a checkpoint; nothing when it is read."""
    try:
        act(path)
    except hugectr.DataError as error:
        return str(error)
    return ""


def resume(model: Model, newest: Path, before: object, wanted: object, refused: bool) -> None:
    """All or nothing."""
    try:
        model.resume(newest)
    except (hugectr.DataError, hugectr.InvalidArgument) as error:
        if refused and not isinstance(error, hugectr.DataError):
            raise FalseSuccess(f"damaged, but {error}") from error
        if state(model) != before:
            raise Lost(f"the model changed: {error}") from error
        return
    if refused:
        raise FalseSuccess("resume() took what verify() refuses")
    if values(model) != wanted:
        raise Lost("other values than were saved")


if __name__ == "__main__":
    log.set_level(log.SILENT)
    with tempfile.TemporaryDirectory(prefix="hctr-manifests-") as scratch:
        SCRATCH = Path(scratch)
        serve(case)
