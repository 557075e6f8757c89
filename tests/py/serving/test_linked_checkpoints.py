# SPDX-License-Identifier: Apache-2.0
"""Checkpoints with links in them and odd names beside them: the right model, or a named error."""

import contextlib
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hugectr
from hugectr.checkpoints import published, verify
from hugectr.checkpoints.inspect import format_report, inspect_model

FRAME = {"city": ["Rome", "Oslo", "Bern"] * 20, "age": [float(one) for one in range(60)]}
REFUSED = (hugectr.DataError, hugectr.InvalidArgument)
#: What a link in place of a file leads to; the first two are the file itself, elsewhere.
TARGETS = ("kept", "kept beside", "itself", "nowhere", ".", "..", "/dev/zero", "/etc/passwd")
NAMES = (
    "step-", "step-abc", "step--1", "step-99999999999999999999999", "step-0000000009 ",
    "STEP-0000000009", "step-9", "step-0000000009.tmp", ".step-0000000009", "step-٣",
    "step-0000000009\n", "x" * 255, "ü\udcff",
)  # fmt: skip


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A folder of one checkpoint, and what its model predicts."""
    model = hugectr.CTRClassifier(epochs=1, hidden=(4,), vec_size=2, random_state=1)
    model.fit(FRAME, np.arange(60) % 2).save(tmp_path_factory.mktemp("linked") / "model")
    folder = max(tmp_path_factory.getbasetemp().glob("linked*")) / "model"
    return folder, hugectr.load(folder).predict(FRAME)


def _same(folder: Path, wanted: Any) -> bool:
    """Whether the right model is loaded; False: it is refused. Looking and checking always work."""
    for look in (
        lambda: [verify(path) for _, path in published(folder)],
        lambda: format_report(inspect_model(folder)).encode("utf-8", "surrogateescape"),
    ):
        with contextlib.suppress(*REFUSED):
            look()
    try:
        found = hugectr.load(folder).predict(FRAME)
    except REFUSED:
        return False
    np.testing.assert_array_equal(found, wanted)
    return True


def test_files_that_are_links(saved: tuple[Path, Any], tmp_path: Path) -> None:
    folder, wanted = saved
    (step,) = (path.name for path in folder.glob("step-*"))
    files = [path.relative_to(folder) for path in (folder / step).rglob("*") if path.is_file()]
    read = 0
    for number, file in enumerate(files):
        for target in TARGETS:
            place = tmp_path / str(number)
            shutil.copytree(folder, place)
            shutil.move(place / file, tmp_path / "kept")
            shutil.copy(tmp_path / "kept", place / "kept beside")
            leads = {"kept": str(tmp_path / "kept"), "itself": file.name}
            leads["kept beside"] = os.path.relpath(place / target, (place / file).parent)
            (place / file).symlink_to(leads.get(target, target))
            same = _same(place, wanted)
            read += same
            # States are read by nobody who predicts.
            assert not same or target.startswith("kept") or "state" in file.name, (file, target)
            with pytest.raises(REFUSED):
                hugectr.CTRClassifier.load(place)
            shutil.rmtree(place)
    assert read >= 5


@pytest.mark.parametrize("name", NAMES)
def test_names_that_no_checkpoint_has(saved: tuple[Path, Any], tmp_path: Path, name: str) -> None:
    folder, wanted = saved
    place = tmp_path / "model"
    shutil.copytree(folder, place)
    (step,) = place.glob("step-*")
    shutil.copytree(step, place / name)
    assert _same(place, wanted)
    shutil.rmtree(step)
    assert not _same(place, wanted)


@pytest.mark.parametrize("target", [".", "..", "nowhere", "step-0000000009", "/dev/zero"])
def test_a_later_step_that_is_a_link(saved: tuple[Path, Any], tmp_path: Path, target: str) -> None:
    folder, wanted = saved
    shutil.copytree(folder, tmp_path / "model")
    (tmp_path / "model" / "step-0000000009").symlink_to(target)
    assert _same(tmp_path / "model", wanted)
    (tmp_path / "link").symlink_to(tmp_path / "model")
    assert _same(tmp_path / "link", wanted)
