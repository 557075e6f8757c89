# SPDX-License-Identifier: Apache-2.0
"""Frames with columns of every kind a schema knows, drawn by hypothesis or by a seed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from hypothesis import strategies as st

from hugectr.data import (
    CategoricalField,
    DenseField,
    GroupField,
    LabelField,
    ListField,
    Schema,
    SequenceField,
    TimestampField,
    WeightField,
)

FIELDS = [
    LabelField("label_"),
    DenseField("plain", indicator=True),
    DenseField("skewed", fill="median", scaling="min-max", log=True),
    CategoricalField("city", min_count=2, vocabulary=True),
    CategoricalField("code", values="numbers"),
    ListField("tags", min_count=1),
    SequenceField("seen", max_length=3),
    WeightField("weight"),
    TimestampField("at", ("hour", "weekday")),
    GroupField("query"),
]
TYPES = {
    "label_": pa.int64(),
    "plain": pa.float64(),
    "skewed": pa.float64(),
    "city": pa.string(),
    "code": pa.int64(),
    "tags": pa.list_(pa.string()),
    "seen": pa.list_(pa.int64()),
    "weight": pa.float64(),
    "at": pa.timestamp("s"),
    "query": pa.int64(),
}

_words = st.sampled_from(["Oslo", "Rome", "å b", "x" * 20, "0", "true"]) | st.text(
    "abc", min_size=1
)
_numbers = st.floats(-1e6, 1e6) | st.integers(-5, 5).map(float)
ROW = st.fixed_dictionaries(
    {
        "label_": st.integers(0, 1),
        "plain": st.none() | _numbers,
        "skewed": st.none() | _numbers,
        "city": st.none() | _words,
        "code": st.none() | st.integers(-3, 3) | st.integers(-(2**62), 2**62),
        "tags": st.none() | st.lists(_words, max_size=4),
        "seen": st.none() | st.lists(st.none() | st.integers(0, 4), max_size=5),
        "weight": st.floats(0, 10),
        "at": st.none() | st.integers(-(2**31), 2**32),
        "query": st.integers(-(2**40), 2**40),
    }
)
ROWS = st.lists(ROW, min_size=1, max_size=40)


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    """The rows as a table with the types above."""
    return pa.table({name: pa.array([row[name] for row in rows], TYPES[name]) for name in TYPES})


def fitted(table: pa.Table) -> Schema:
    """A schema with a field of every kind."""
    return Schema(FIELDS).fit(table)


def seeded(rows: int, seed: int) -> pa.Table:
    """A frame of so many rows."""
    rng = np.random.default_rng(seed)
    words = np.array(["Oslo", "Rome", None, "Bern", "x" * 20], object)

    def gaps(values: Any) -> pa.Array:
        return pa.array(values, mask=rng.random(rows) < 0.1)

    def lists(values: Any) -> list[list[Any] | None]:
        lengths = rng.integers(-1, 5, rows)
        return [None if n < 0 else rng.choice(values, n).tolist() for n in lengths]

    columns = {
        "label_": rng.integers(0, 2, rows),
        "plain": gaps(rng.standard_normal(rows)),
        "skewed": gaps(rng.lognormal(0, 3, rows)),
        "city": rng.choice(words, rows),
        "code": gaps(rng.integers(0, 50, rows)),
        "tags": lists(["a", "b", "c"]),
        "seen": lists([1, 2, 3, 4]),
        "weight": rng.random(rows),
        "at": gaps(rng.integers(0, 2**31, rows)),
        "query": rng.integers(0, 99, rows),
    }
    return pa.table({name: pa.array(columns[name]).cast(TYPES[name]) for name in TYPES})


def write_parquet(table: pa.Table, path: Path) -> None:
    """As Parquet with small row groups."""
    pq.write_table(table, path, row_group_size=37)


def write_json(table: pa.Table, path: Path) -> None:
    """As JSON lines; what is null is left out of every second row."""
    lines = []
    for place, row in enumerate(table.to_pylist()):
        row["at"] = None if row["at"] is None else str(row["at"])
        kept = {n: v for n, v in row.items() if v is not None or place % 2 == 0}
        lines.append(json.dumps(kept))
    path.write_text("\n".join(lines), encoding="utf-8")


def write_csv(table: pa.Table, path: Path) -> None:
    """The columns that CSV can hold, without the lists."""
    pyarrow.csv.write_csv(table.drop_columns(["tags", "seen"]), path)


def assert_same(one: Any, two: Any) -> None:
    """Two EncodedData, to the bit."""
    assert one.label.tobytes() == two.label.tobytes()
    assert one.dense.shape == two.dense.shape
    assert one.dense.tobytes() == two.dense.tobytes()
    assert list(one.sparse) == list(two.sparse)
    for name, arrays in one.sparse.items():
        for mine, other in zip(arrays, two.sparse[name], strict=True):
            assert mine.dtype == other.dtype
            assert np.array_equal(mine, other), name
    for name in ("weight", "group"):
        mine, other = getattr(one, name), getattr(two, name)
        assert (mine is None) == (other is None)
        assert mine is None or np.array_equal(mine, other)
    assert list(one.timestamps) == list(two.timestamps)
    for name, times in one.timestamps.items():
        assert np.array_equal(times, two.timestamps[name])
