# SPDX-License-Identifier: Apache-2.0
"""What a fit keeps in a temporary folder: gone, it is said; a fork takes it from nobody."""

import os
import pickle
import shutil
import sys

import numpy as np
import pytest

import hugectr

FRAME = {"city": ["Rome", "Oslo", "Bern", "Oslo"] * 20, "age": list(range(80))}
LABEL = [1, 0, 0, 1] * 20


@pytest.fixture
def fitted():
    return hugectr.CTRClassifier(model="lr", random_state=1, epochs=1).fit(FRAME, LABEL)


def remove_all(folder):
    shutil.rmtree(folder)


def remove_content(folder):
    shutil.rmtree(folder)
    folder.mkdir()


def remove_one(folder):
    next(folder.rglob("dense.weights")).unlink()


@pytest.mark.parametrize("clean", [remove_all, remove_content, remove_one])
def test_cleaned_files_are_told_and_nothing_is_replaced(fitted, tmp_path, clean):
    fitted.save(tmp_path / "model")
    before = fitted.predict_proba(FRAME)
    clean(fitted._kept.path)
    with pytest.raises(hugectr.DataError, match=r"CTRClassifier\.save: the files of the fitted"):
        fitted.save(tmp_path / "model")
    with pytest.raises(hugectr.DataError, match=r"state of a CTRClassifier: .* TMPDIR"):
        pickle.dumps(fitted)
    np.testing.assert_array_equal(fitted.predict_proba(FRAME), before)
    loaded = hugectr.CTRClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(FRAME), before)
    assert os.listdir(tmp_path) == ["model"]


def test_the_end_of_a_fork_leaves_the_files(fitted, tmp_path):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            fitted._kept._end()  # as at the end of an interpreter, which is left otherwise here
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    fitted.save(tmp_path / "model")
    loaded = hugectr.CTRClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(FRAME), fitted.predict_proba(FRAME))
