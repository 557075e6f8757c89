# SPDX-License-Identifier: Apache-2.0
"""In each of two processes: what one of them gets wrong is raised by both, and no row went."""

import numpy as np
import pytest
from oracle.streaming_net import build, stream

import hugectr
from hugectr import processes

rank = processes.current().rank
model = build(
    stream(np.random.default_rng(3), 4),
    {"evict": "lru", "max_rows": 500, "evict_every": 50},
    vvgpu=[[0], [0]],
)
for _ in range(3):
    assert model.train()


def rows():
    return [table["rows"] for table in model.table_stats(of_job=True)]


def none(use):
    return np.zeros(len(use.keys), bool)


def raises(use):
    raise hugectr.DataError("the list of users can not be read")


before, keys = rows(), np.arange(40)
for asked, said in (
    ({"table": "one", "keys": keys if rank == 0 else []}, "process 1 asks for other rows"),
    ({"table": "one", "keys": keys + rank}, "process 1 asks for other rows"),
    ({"table": ("one", "two")[rank], "where": {"older_than": 1}}, "process 1 asks for other"),
    ({"table": "one", "where": {"older_than": rank}}, "process 1 asks for other rows"),
    ({"table": "one", "where": (none, {"older_than": 0})[rank]}, "process 1 asks for other"),
    ({"table": "two", "keys": keys, "slot_ids": rank}, "process 1 asks for other rows"),
    ({"table": ("one", "none")[rank], "keys": keys}, "found 'none'"),
    ({"table": "one", "keys": (keys, ["Ann"])[rank]}, "keys: found"),
    ({"table": "one", "where": ({"older_than": 0}, {"older_than": -1})[rank]}, "found -1"),
    ({"table": "one", "where": (lambda use: ~none(use), raises)[rank]}, "users can not be read"),
):
    with pytest.raises((hugectr.InvalidArgument, hugectr.DataError), match=said):
        model.evict(**asked)
    assert rows() == before
assert model.train()
# Spelled otherwise, and the same.
there = model.evict("one", keys=(keys, keys.tolist())[rank])
assert 0 < there <= 40
assert rows()[0] >= before[0] - there
model.evict("one", where={"older_than": (1, np.int64(1))[rank]})
print("both")
