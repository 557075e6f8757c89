# SPDX-License-Identifier: Apache-2.0
"""Tables whose rows nobody gave: as many as a batch needs at least, and a line that says so."""

from __future__ import annotations

import pytest
from plan.planned_models import keys_of, model_of

import hugectr
from hugectr.plan.plan_file import plan_of_json


def test_without_data_a_table_has_the_rows_of_a_batch():
    plan = model_of("there_is_none.txt", hot=5).plan(machine="h200").placement
    assert plan.tables[0].rows == 5 * 256
    assert "rows of 'emb' are not known, and taken to be the keys of a batch" in str(plan)
    assert "--rows NAME=N" in str(plan)
    assert plan_of_json(plan.to_json(), "plan") == plan


def test_of_few_samples_too():
    """Twenty rows were seen; a batch draws more than twenty times as many."""
    batch = model_of(keys_of(20, 10**6), batch=4096).plan(machine="h200").placement
    assert batch.tables[0].rows == 4096
    many = model_of(keys_of(8192, 1000), batch=4096).plan(machine="h200").placement
    assert many.tables[0].rows == 20 * 1000
    assert "taken to be many times the distinct ones of the samples" in str(many)


def test_rows_that_are_given_need_no_line():
    given = model_of("there_is_none.txt").plan({"emb": 10**6}, machine="h200").placement
    assert (given.tables[0].rows, given.notes) == (10**6, ())
    budget = model_of("there_is_none.txt", megabytes=1).plan(machine="h200").placement
    assert (budget.tables[0].rows, budget.notes) == (4 * 2**20 // 64, ())


@pytest.mark.parametrize(
    ("placement", "rows"),
    [
        ("by_key", 4000),
        ("by_slot", 1000),  # of one slot
        ("one_device", 1000),
        ("replicated", 1000),
        ("by_column", 1000),
        ("hybrid", 4000),
    ],
)
def test_a_budget_of_a_device_is_that_of_all_rows_where_a_device_has_all(placement, rows):
    """As compile() takes it of a table that says itself where it lies."""
    table = {"placement": placement, "max_vocabulary_size_per_gpu": 1000}
    found = model_of(keys_of(512, 100), table=table).plan(machine="h200").placement.tables[0]
    assert (found.kind, found.rows) == (placement, rows)


def test_a_bound_of_the_whole_job_counts_beside_a_larger_budget():
    few = {"max_rows": 500, "evict": "lru"}
    plan = model_of(keys_of(512, 100), megabytes=1, table=few).plan(machine="h200").placement
    assert plan.tables[0].rows == 500


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"placement": "by_slot", "combiner": "concat"}, "is not pooled"),
        ({"placement": "replicated", "max_rows": 9}, "rows that come and go"),
        ({"placement": "hybrid", "kind": "Localized"}, "tells rows apart by slot"),
        ({"placement": "by_column", "optimizer": "RowWiseAdaGrad"}, "one number a row"),
    ],
)
def test_placements_that_compile_refuses_are_not_planned(table, says):
    given = dict(table)
    if "kind" in given:
        given["embedding_type"] = hugectr.Embedding_t[f"{given.pop('kind')}SlotSparseEmbeddingHash"]
    if "optimizer" in given:
        kind = hugectr.Optimizer_t[given["optimizer"]]
        given["optimizer"] = hugectr.CreateOptimizer(kind)
    for refused in (lambda m: m.plan(machine="h200"), lambda m: m.compile()):
        model = model_of(keys_of(512, 100), megabytes=1, table=given)
        with pytest.raises(hugectr.InvalidArgument, match=says):
            refused(model)


@pytest.mark.parametrize("frequent", [range(400), range(400, 500), ()])
def test_frequent_keys_that_a_table_names_are_planned(frequent):
    """Not those that would be counted, of which there are none among evenly drawn keys."""
    hybrid = hugectr.Placement("hybrid", frequent=list(frequent))
    data = keys_of(4096, 400)

    def bytes_of(placement):
        table = {"placement": placement, "exchange": "unique"}
        plan = model_of(data, batch=1024, table=table).plan({"emb": 1000}, machine="h200")
        return plan.placement.tables[0].bytes[0]

    row = bytes_of("by_key") / (1000 / 4)
    wanted = len(frequent) + (1000 - len(frequent)) / 4
    assert bytes_of(hybrid) == pytest.approx(wanted * row, rel=1e-3)
