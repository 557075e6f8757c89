# SPDX-License-Identifier: Apache-2.0
"""A model goes when nobody has it any more: no circle leaves its memory to the collector."""

import gc
import weakref

import pytest
from oracle.framed_model import frame, trained

import hugectr


@pytest.fixture
def no_collector():
    gc.disable()
    yield
    gc.enable()


def used(model, tmp_path):
    """All that makes parts hold on to one another."""
    model.fit(max_iter=3, eval_interval=2, callbacks=[hugectr.callbacks.EarlyStopping(patience=9)])
    model.report(tmp_path / "run.html")
    model.predict(frame())
    model.embedding("categories_vectors", [1, 2])
    model.save(tmp_path)


@pytest.mark.usefixtures("no_collector")
def test_a_model_and_a_loaded_one(tmp_path):
    model = trained()
    used(model, tmp_path)
    loaded = hugectr.load(model.latest_checkpoint(tmp_path))
    loaded.predict(frame())
    loaded.evaluate(frame())
    sessions = [weakref.ref(one.session) for one in (model, loaded)]
    assert all(one() is not None for one in sessions)
    del model, loaded
    assert [one() for one in sessions] == [None, None]


def test_a_loaded_model_in_a_circle(tmp_path):
    model = trained()
    model.save(tmp_path)
    loaded = hugectr.load(tmp_path)
    loaded.evaluate(frame())
    loaded.own = loaded
    session = weakref.ref(loaded.session)
    del loaded
    gc.collect()
    assert session() is None
