# SPDX-License-Identifier: Apache-2.0
"""Values that are infinite or no number do not become the newest checkpoint unasked."""

import re

import numpy as np
import pytest
from oracle.fake_model import DIM, FakeModel
from oracle.thread_group import run_job

from hugectr import checkpoints
from hugectr.base.errors import DataError
from hugectr.checkpoints.finite import NonFinite, nonfinite
from hugectr.processes.solo import SoloGroup

ROWS = {(0, key): key for key in range(400)}


def model_at(step, group=None, localized=False):
    model = FakeModel(group or SoloGroup(), group.size if group else 1, localized)
    model.train(ROWS, step)
    return model


def spoil(model, where, value):
    """Put a value where it must not be, on the process that has the row."""
    if where == "dense":
        model.session.values["dense"][4] = value
    elif (0, 137) in model.session.table(0).rows:
        row = np.array(model.session.table(0).rows[0, 137])
        row[0 if where == "vector" else 1, DIM - 1] = value
        model.session.table(0).rows[0, 137] = row


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["dense", "vector", "state"])
def test_it_is_refused_named_and_saved_only_on_demand(
    tmp_path, monkeypatch, where, value, processes, background
):
    monkeypatch.setattr("hugectr.checkpoints.folder.CHUNK", 700)
    finite = model_at(1).save(tmp_path)
    words = {
        "dense": "dense.weights: 1, first in 'fc.bias'",
        "vector": "table 't', vector: 1, first of key 137",
        "state": "table 't', state0: 1, first of key 137",
    }

    def work(group, allow=False):
        model = model_at(2, group)
        spoil(model, where, value)
        model.save(tmp_path, background=background, allow_nonfinite=allow, keep_last=1)
        model.wait_for_save()

    for _, error in run_job(processes, work):
        assert isinstance(error, DataError)
        assert re.search(words[where], str(error))
        assert "allow_nonfinite=True" in str(error)
    assert [path for _, path in checkpoints.published(tmp_path)] == [finite]
    assert len(list(tmp_path.iterdir())) == 1
    assert "finite" not in checkpoints.verify(finite)
    for _, error in run_job(processes, lambda group: work(group, allow=True)):
        assert error is None
    newest = checkpoints.latest(tmp_path)
    assert newest.name == "step-0000000002"
    assert checkpoints.verify(newest)["finite"] is False


def test_the_slot_is_named_too(tmp_path):
    model = model_at(1, localized=True)
    model.session.table(0).rows[0, 7] = np.full((2, DIM), np.inf)
    with pytest.raises(DataError, match="first of key 7 of slot 0"):
        model.save(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_every_place_and_no_large_number(rng, dtype):
    values = rng.standard_normal(200_000).astype(dtype)
    values[:50_000] = np.finfo(dtype).max  # their sum is not finite
    values[50_000:100_000] = np.finfo(dtype).min
    values[100_000] = np.finfo(dtype).tiny / 2
    assert nonfinite(values) is None
    assert nonfinite(values.reshape(-1, 4)) is None
    for place in [0, 1, 65535, 65536, 199_999, *rng.integers(0, 200_000, 20).tolist()]:
        for value in (np.nan, np.inf, -np.inf):
            spoilt = values.copy()
            spoilt[[place, -1]] = value
            assert nonfinite(spoilt) == NonFinite(2 - (place == 199_999), place)


def test_what_has_no_such_values():
    assert nonfinite(np.zeros(0, np.float32)) is None
    assert nonfinite(np.full(9, -1, np.int64)) is None
