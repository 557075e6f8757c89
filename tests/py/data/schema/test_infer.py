# SPDX-License-Identifier: Apache-2.0
"""The rules of Schema.infer, one by one, and what it takes."""

import datetime

import numpy as np
import pyarrow as pa
import pytest

from hugectr.base.errors import InvalidArgument
from hugectr.data import CategoricalField, DenseField, ListField, Schema

ROWS = 400


def field_of(values, **arguments):
    return Schema.infer({"c": values}, **arguments).fields[0]


def repeated(values):
    return [values[i % len(values)] for i in range(ROWS)]


NUMBERS = np.random.default_rng(3).permutation(ROWS)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([None] * ROWS, "ignored"),
        (pa.nulls(ROWS, pa.float64()), "ignored"),
        ([f"user {i}" for i in range(ROWS)], "ignored"),
        (NUMBERS, "ignored"),
        (pa.array([None, *NUMBERS[1:].tolist()]), "ignored"),
        (NUMBERS[:99], "dense"),  # too few to be an id
        ([f"user {i}" for i in range(99)], "categorical"),
        (repeated(["a", "b", None]), "categorical"),
        (pa.array([f"{i}" for i in range(ROWS)]).dictionary_encode(), "categorical"),
        (repeated([True, False, None]), "categorical"),
        (repeated([1, 2, 5]), "categorical"),
        (repeated([1.0, 2.0, np.nan]), "categorical"),
        (repeated([1.0, 2.0, 5.0]), "dense"),  # measured as well as counted
        (NUMBERS // 2, "dense"),
        (NUMBERS / 7, "dense"),
        (pa.array(NUMBERS / 4).cast(pa.decimal128(9, 2)), "dense"),
        ([[1, 2], [], None, [3]] * 100, "list"),
        ([["a"], ["b"]] * 200, "list"),
        ([[0.5], [1.5]] * 200, "ignored"),
        ([{"a": 1}] * ROWS, "ignored"),
        (pa.array(NUMBERS, pa.timestamp("s")), "timestamp"),
        (pa.array(NUMBERS.astype("datetime64[D]")), "timestamp"),
        (pa.array(NUMBERS, pa.duration("s")), "ignored"),
        (repeated(["2024-05-31 10:00", None, "2024-06-01T11:30:00Z"]), "timestamp"),
        (repeated(["2024-05-31", "2024-06-01"]), "timestamp"),
        (repeated(["2024-05-31", "soon"]), "categorical"),
    ],
)
def test_rules(values, kind):
    field = field_of(values)
    assert field.kind == kind
    if kind == "ignored":
        assert field.reason


@pytest.mark.parametrize("value", ["a", 5, 2.5, True, None, ["a"], datetime.date(2024, 1, 1)])
def test_one_row_works(value):
    data = {"c": [value], "y": [1]}
    schema = Schema.infer(data, label="y")
    made = schema.encode(data)
    assert made.samples == 1
    assert np.isfinite(made.dense).all()


def test_many_rows_make_integers_of_few_values_categories():
    values = np.arange(5000) % 100
    assert field_of(values).kind == "categorical"
    assert field_of(np.arange(4900) % 100).kind == "dense"


def test_gaps_are_flagged_and_skewed_numbers_go_by_their_logarithm(rng):
    field = field_of(np.where(rng.random(ROWS) < 0.1, np.nan, rng.random(ROWS)))
    assert field.indicator
    assert not field.log
    skewed = np.concatenate([rng.random(5000), [1e6]])
    assert field_of(skewed).log


def test_what_is_said_comes_before_the_rules():
    data = {"a": [1.5, 2.5], "b": [1, 2], "c": ["x", "y"], "d": ["x|y", "z"], "y": [0, 1]}
    schema = Schema.infer(
        data,
        label="y",
        categorical=["a"],
        dense="b",
        ignore=["c"],
        fields=[ListField("d", separator="|")],
    )
    assert [field.kind for field in schema.fields] == [
        "categorical",
        "dense",
        "ignored",
        "list",
        "label",
    ]


def test_roles():
    data = {"y": [1, 0], "w": [1.0, 2.0], "q": ["a", "b"], "t": [10, 20], "x": [1.5, 2.5]}
    schema = Schema.infer(data, "y", weight="w", group="q", timestamp="t")
    assert [field.kind for field in schema.fields] == [
        "label",
        "weight",
        "group",
        "timestamp",
        "dense",
    ]


def test_a_column_has_one_role():
    with pytest.raises(InvalidArgument, match="column 'x': found 'label and dense'"):
        Schema.infer({"x": [1]}, label="x", dense=["x"])


def test_only_the_sample_decides_and_all_rows_are_learnt():
    values = ["a", "b"] * 70_000 + [f"v{i}" for i in range(100_000)]
    schema = Schema.infer({"c": values}, sample_rows=1000)
    assert schema.fields[0].kind == "categorical"
    assert schema.state["c"].distinct == 100_002
    assert schema.state["c"].rows == 240_000


def test_csv_columns_have_types(tmp_path):
    lines = ["n,f,b,code,t,day,text,void,mixed"]
    for i in range(200):
        lines.append(
            f"{i % 3},{i / 7},{'true' if i % 2 else 'False'},00{i % 5},2024-05-{i % 28 + 1:02} "
            f"10:00:00Z,2024-05-{i % 28 + 1:02},{'ab'[i % 2]},,{i % 4 if i % 9 else 'x'}"
        )
    path = tmp_path / "a.csv"
    path.write_text("\n".join(lines))
    schema = Schema.infer(path)
    assert {field.name: field.kind for field in schema.fields} == {
        "n": "categorical",
        "f": "dense",
        "b": "categorical",
        "code": "categorical",
        "t": "timestamp",
        "day": "timestamp",
        "text": "categorical",
        "void": "ignored",
        "mixed": "categorical",
    }
    values = {f.name: f.values for f in schema.fields if isinstance(f, CategoricalField)}
    assert values == {
        "n": "numbers",
        "b": "numbers",
        "code": "text",
        "text": "text",
        "mixed": "text",
    }


def test_the_table_says_all_columns():
    data = {"x": [1.5, None, 3.0], "c<i>": ["a", "a", "b"], "y": [0, 1, 1]}
    schema = Schema.infer(data, label="y")
    text = str(schema)
    for word in ("Schema of 3 columns, fitted", "c<i>", "33.3%", "1.5 to 3, mean 2.25", "label"):
        assert word in text
    html = schema._repr_html_()
    assert "c&lt;i&gt;" in html
    assert "c<i>" not in html
    bare = schema.replace(DenseField("x", scaling="none"))
    assert "not fitted yet" in str(bare)
    assert bare.fit(data).encode(data).dense[0, 0] == 1.5
    with pytest.raises(InvalidArgument, match="did you mean 'c<i>'"):
        schema.replace(DenseField("c<j>"))
