# SPDX-License-Identifier: Apache-2.0
"""Integers that name things are categories, integers that measure stay numbers."""

import numpy as np
import pytest

import hugectr
from hugectr.data import CategoricalField, DenseField, IgnoredField, Schema
from hugectr.data.schema.identifiers import named_so

ROWS = 6000


def kind_of(values, name="x"):
    columns = {name: values, "clicked": np.arange(len(values)) % 2}
    return type(Schema.infer(columns, label="clicked").fields[0])


def drawn(rng, low, high, distinct):
    return rng.integers(low, high, distinct)[rng.integers(0, distinct, ROWS)]


@pytest.mark.parametrize(("low", "high"), [(10**8, 10**9), (0, 2**31), (-(2**50), 2**50)])
@pytest.mark.parametrize("seed", range(5))
def test_ids_that_were_drawn_are_categories(low, high, seed):
    rng = np.random.default_rng(seed)
    assert kind_of(drawn(rng, low, high, 900)) is CategoricalField
    assert kind_of(drawn(rng, low, high, 20_000)) is DenseField  # they hardly come twice


MEASURED = {
    "age": lambda rng: rng.integers(17, 90, ROWS) * 31 + rng.integers(0, 31, ROWS),
    "views": lambda rng: (10 * np.exp(rng.normal(3, 2, ROWS))).astype(int),
    "cents": lambda rng: (100 * rng.lognormal(3, 1, 400)).astype(int)[rng.integers(0, 400, ROWS)],
    "salary": lambda rng: 1000 * rng.integers(20, 220, ROWS),
    "height": lambda rng: rng.normal(1700, 90, ROWS).astype(int),
    "balance": lambda rng: rng.normal(0, 10**6, 500).astype(int)[rng.integers(0, 500, ROWS)],
    "event_time": lambda rng: drawn(rng, 1_600_000_000, 1_700_000_000, 1000),
}


@pytest.mark.parametrize("what", MEASURED)
@pytest.mark.parametrize("seed", range(5))
def test_amounts_stay_numbers(what, seed):
    assert kind_of(MEASURED[what](np.random.default_rng(seed)), what) is DenseField


@pytest.mark.parametrize(
    "name", ["user_id", "itemId", "USER_ID", "movie", "Zip", "product code", "adgroup.key", "id"]
)
def test_a_name_says_so(name):
    assert named_so(name)
    values = np.random.default_rng(1).integers(1, 300, ROWS)
    assert kind_of(values) is DenseField
    assert kind_of(values, name) is CategoricalField
    gaps = np.where(np.arange(ROWS) % 7 == 0, np.nan, values)
    assert kind_of(gaps, name) is CategoricalField
    assert kind_of(np.arange(ROWS), name) is IgnoredField  # a value of its own in every row
    assert kind_of(values + 0.5, name) is DenseField


@pytest.mark.parametrize(
    "name", ["paid", "items", "user_age", "item price", "grid", "C14", "_", "1"]
)
def test_other_names_do_not(name):
    assert not named_so(name)


def test_what_users_like_is_learnt_by_their_numbers():
    rng = np.random.default_rng(0)
    effect, ids = rng.normal(0, 1.5, 500), rng.integers(10**8, 10**9, 500)
    user = rng.integers(0, 500, 20_000)
    clicked = rng.random(20_000) < 1 / (1 + np.exp(-effect[user]))
    columns = {"visits": ids[user], "hour": rng.integers(0, 24, 20_000)}
    train = {name: values[:16_000] for name, values in columns.items()}
    test = {name: values[16_000:] for name, values in columns.items()}
    model = hugectr.CTRClassifier(random_state=1).fit(train, clicked[:16_000])
    assert model.evaluate(test, clicked[16_000:])["AUC"] > 0.75
