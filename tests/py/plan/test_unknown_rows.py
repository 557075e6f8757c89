# SPDX-License-Identifier: Apache-2.0
"""Tables whose rows nobody gave: as many as a batch needs at least, and a line that says so."""

from __future__ import annotations

from plan.planned_models import keys_of, model_of

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
