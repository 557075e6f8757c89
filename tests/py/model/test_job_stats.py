# SPDX-License-Identifier: Apache-2.0
"""Numbers of tables in a job: added up, but for a bound that is the whole job's."""

from __future__ import annotations

import pytest
from oracle.streaming_net import build, stream

from hugectr.base import log
from hugectr.base.errors import InvalidArgument
from hugectr.model import job_stats
from hugectr.model.fit_lines import say_lives


class TwoProcesses:
    """A group in which the other process says what this one says."""

    rank, size = 0, 2

    def all_gather(self, data: bytes, limit: float | None = None) -> list[bytes]:
        return [data, data]


@pytest.fixture
def model(rng):
    data = stream(rng, 12)
    return build(data, {"max_rows": 150, "evict": "lfu"}, vvgpu=[[0]], optimizer="SGD")


def test_numbers_are_added_up_and_bounds_are_not(model):
    for _ in range(8):
        assert model.train()
    own = model.table_stats()
    found = job_stats.stats_of_job(model.embeddings, TwoProcesses(), model.table_stats)
    for embedding, one, of_job in zip(model.embeddings, own, found, strict=True):
        most = embedding.life.max_rows
        assert of_job.pop("max_rows") == (most or 2 * one["max_rows"])
        for name, value in of_job.items():
            assert value == 2 * one[name], name
    assert any(one["rows"] > 0 for one in own)
    assert model.table_stats(of_job=True) == own
    assert model.get_params_num(of_job=True) == model.get_params_num()


def test_lines_say_the_numbers_that_they_are_given(model, monkeypatch):
    said = []
    monkeypatch.setattr(log, "info", said.append)
    for _ in range(8):
        assert model.train()
    of_job = job_stats.stats_of_job(model.embeddings, TwoProcesses(), model.table_stats)
    say_lives(model, of_job)
    assert said
    for stats, line in zip(model.table_stats(), said, strict=True):
        assert f"{2 * stats['rows']:,} rows of 150" in line


def test_of_job_is_true_or_false(model):
    with pytest.raises(InvalidArgument, match="of_job"):
        model.table_stats(of_job="all")
