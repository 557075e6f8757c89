# SPDX-License-Identifier: Apache-2.0
"""Loading an estimator: what is in the folder is checked before any of it is copied."""

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from oracle.clicks import clicks, part

from hugectr import CTRClassifier, DataError

COLUMNS = clicks(500)
TEST = part(COLUMNS, 400, 500)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "model"
    CTRClassifier(random_state=3, epochs=2).fit(part(COLUMNS, 0, 400), "clicked").save(path)
    return path


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where temporary folders are made."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_the_loaded_model_needs_its_folder_no_more_and_is_saved_again(
    saved: Path, copies: Path, tmp_path: Path
) -> None:
    wanted = CTRClassifier.load(saved).predict_proba(TEST)
    given = tmp_path / "given"
    shutil.copytree(saved, given)
    with (given / "other").open("wb") as file:
        os.truncate(file.fileno(), 1 << 40)  # nobody's, and of no blocks
    model = CTRClassifier.load(given)
    assert sum(path.stat().st_size for path in _files(copies)) < 64 << 20
    shutil.rmtree(given)
    assert model.predict_proba(TEST).tobytes() == wanted.tobytes()
    model.save(tmp_path / "again")
    again = CTRClassifier.load(tmp_path / "again")
    assert again.predict_proba(TEST).tobytes() == wanted.tobytes()


def test_every_damaged_file_is_named_and_nothing_is_copied(
    saved: Path, copies: Path, tmp_path: Path
) -> None:
    rng = np.random.default_rng(5)
    files = [path.relative_to(saved) for path in _files(saved) if path.stat().st_size]
    assert len(files) > 5
    for number, file in enumerate(files):
        given = tmp_path / f"given{number}"
        for way in ("flip", "cut", "long", "link"):
            shutil.rmtree(given, ignore_errors=True)
            shutil.copytree(saved, given)
            content = bytearray((given / file).read_bytes())
            if way == "flip":
                content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
            elif way == "cut":
                del content[int(rng.integers(len(content))) :]
            (given / file).write_bytes(content)
            if way == "long":
                os.truncate(given / file, 1 << 40)
            elif way == "link":
                (given / file).rename(tmp_path / "elsewhere")
                (given / file).symlink_to("/dev/zero")
            with pytest.raises(DataError) as caught:
                CTRClassifier.load(given)
            assert str(given) in str(caught.value), caught.value
            assert str(copies) not in str(caught.value)
        shutil.rmtree(given, ignore_errors=True)
        assert not _files(copies)
