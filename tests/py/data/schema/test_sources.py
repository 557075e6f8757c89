# SPDX-License-Identifier: Apache-2.0
"""The same data from every kind of source is the same to the bit."""

import gzip
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pytest
from hypothesis import given, settings
from oracle.random_frames import (
    FIELDS,
    ROWS,
    TYPES,
    assert_same,
    fitted,
    seeded,
    table_of,
    write_csv,
    write_json,
    write_parquet,
)

import hugectr.data.schema
from hugectr.base.errors import InvalidArgument
from hugectr.data import ListField, Schema

TABLE = seeded(500, 11)


class Stream:
    """Anything that has the Arrow stream protocol and nothing else."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def as_views(table):
    """Text as polars gives it."""
    place = table.column_names.index("city")
    return table.set_column(place, "city", table.column("city").cast(pa.string_view()))


def as_dictionary(table):
    place = table.column_names.index("city")
    return table.set_column(place, "city", table.column("city").dictionary_encode())


SOURCES = {
    "batch": lambda t: t.combine_chunks().to_batches()[0],
    "reader": lambda t: pa.RecordBatchReader.from_batches(t.schema, t.to_batches(33)),
    "stream": Stream,
    "views": lambda t: Stream(as_views(t)),
    "dictionary": as_dictionary,
    "dataset": lambda t: pyarrow.dataset.dataset([t.slice(0, 200), t.slice(200)]),
    "dict": lambda t: {name: t.column(name) for name in t.column_names},
    "lists": lambda t: t.to_pydict() | {"at": t.column("at")},
    "records": lambda t: t.to_pylist(),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_in_memory(kind):
    schema = fitted(TABLE)
    assert_same(schema.encode(SOURCES[kind](TABLE)), schema.encode(TABLE))
    again = Schema(FIELDS).fit(SOURCES[kind](TABLE))
    assert again.to_json() == schema.to_json()


def test_numpy_arrays_with_nan_for_what_is_missing():
    columns = {
        name: TABLE.column(name).to_numpy()
        for name in TABLE.column_names
        if name not in ("tags", "seen")
    }
    schema = Schema([f for f in FIELDS if not isinstance(f, ListField)]).fit(TABLE)
    assert_same(schema.encode(columns), schema.encode(TABLE))


def test_parquet(tmp_path):
    schema = fitted(TABLE)
    wanted = schema.encode(TABLE)
    folder = tmp_path / "rows"
    folder.mkdir()
    write_parquet(TABLE.slice(0, 300), folder / "a.parquet")
    write_parquet(TABLE.slice(300), folder / "b.parquet")
    assert_same(schema.encode(folder), wanted)
    assert_same(schema.encode([folder / "a.parquet", str(folder / "b.parquet")]), wanted)
    assert_same(schema.encode(str(folder / "a.parquet")), schema.encode(TABLE.slice(0, 300)))
    assert Schema(FIELDS).fit(folder).to_json() == schema.to_json()


@settings(max_examples=25, deadline=None, derandomize=True)
@given(rows=ROWS)
def test_files_of_random_rows(tmp_path_factory, rows):
    folder, table = tmp_path_factory.mktemp("rows"), table_of(rows)
    schema = fitted(table)
    wanted = schema.encode(table)
    write_parquet(table, folder / "a.parquet")
    assert_same(schema.encode(folder / "a.parquet"), wanted)
    write_json(table, folder / "a.jsonl")
    first = set(json_names(rows))
    if first == set(TYPES):
        assert_same(schema.encode(folder / "a.jsonl"), wanted)
    write_csv(table, folder / "a.csv")
    single = Schema([f for f in FIELDS if not isinstance(f, ListField)]).fit(table)
    assert_same(single.encode(folder / "a.csv"), single.encode(table))


def json_names(rows):
    """Columns of which write_json writes at least one value or null."""
    return [
        name
        for name in TYPES
        if any(row[name] is not None or i % 2 == 0 for i, row in enumerate(rows))
    ]


def test_csv_and_json_of_many_rows(tmp_path, monkeypatch):
    from hugectr.data.schema import text_files

    monkeypatch.setattr(text_files, "_BLOCK_BYTES", 4000)
    schema = fitted(TABLE)
    write_json(TABLE, tmp_path / "a.jsonl")
    assert_same(schema.encode(tmp_path / "a.jsonl"), schema.encode(TABLE))
    single = Schema([f for f in FIELDS if not isinstance(f, ListField)]).fit(TABLE)
    write_csv(TABLE, tmp_path / "a.csv")
    assert_same(single.encode(tmp_path / "a.csv"), single.encode(TABLE))
    packed = tmp_path / "a.csv.gz"
    packed.write_bytes(gzip.compress((tmp_path / "a.csv").read_bytes()))
    assert_same(single.encode(packed), single.encode(TABLE))
    again = Schema(single.fields).fit(packed)
    assert again.encode(TABLE).dense.tobytes() == single.encode(TABLE).dense.tobytes()


def test_what_csv_takes_for_missing(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('c,x,line\nNA,1,"two\nlines"\n"NA",,b\n,nan,c\nn/a,3,d\n')
    data = Schema.infer(path, categorical=["c"], dense=["x"], fields=[]).replace()
    data.fit(path)
    made = data.encode(path, labels=False)
    assert made.samples == 4
    keys = made.sparse["categories"][0].reshape(4, -1)[:, 0]
    assert keys[0] == keys[2] == data.key_of("c", None)  # not the one in quotes, not "n/a"
    assert data.key_of("c", None) not in keys[[1, 3]]
    assert data.state["x"].missing == 2


def test_a_tsv_has_tabs(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("a\tb\n1.5\tx,y\n")
    assert [field.name for field in Schema.infer(path).fields] == ["a", "b"]


def test_a_reader_is_read_once():
    reader = pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches())
    schema = Schema.infer(reader, label="label_")  # infers and fits in one pass
    assert schema.state["label_"].rows == 500


def test_frames_of_pandas():
    pandas = pytest.importorskip("pandas")
    schema = fitted(TABLE)
    frame = TABLE.to_pandas()
    frame.index = np.arange(500) + 7
    assert_same(schema.encode(frame), schema.encode(TABLE))
    frame["city"] = frame["city"].astype("category")
    assert_same(schema.encode(frame), schema.encode(TABLE))
    assert Schema(FIELDS).fit(frame).to_json() == schema.to_json()
    inferred = Schema.infer(frame, label="label_")
    assert "__index_level_0__" not in [field.name for field in inferred.fields]
    frame.columns = [0, *frame.columns[1:]]
    with pytest.raises(Exception, match="column called 0"):
        Schema.infer(frame)
    assert pandas.__name__ == "pandas"


def test_frames_of_polars():
    polars = pytest.importorskip("polars")
    schema = fitted(TABLE)
    frame = polars.from_arrow(TABLE)
    assert_same(schema.encode(frame), schema.encode(TABLE))
    assert Schema(FIELDS).fit(frame).to_json() == schema.to_json()


def test_the_package_imports_neither_pandas_nor_polars():
    folder = Path(hugectr.data.schema.__file__).parent
    imports = re.compile(r"^\s*(import|from) +(pandas|polars)", re.MULTILINE)
    assert [path for path in folder.glob("*.py") if imports.search(path.read_text())] == []


@pytest.mark.parametrize("data", [5, None, [], [1, 2], object(), {1, 2}])
def test_other_things_are_refused(data):
    with pytest.raises(InvalidArgument, match="pandas or polars DataFrame"):
        Schema.infer(data)


@pytest.mark.parametrize("sign", [";", "\t"])
def test_a_csv_of_semicolons_or_tabs_is_read_by_its_first_line(tmp_path, sign):
    lines = ["'city, or town'|age|clicked", "'Rome|Bern'|31|1", "Oslo|4,5|0", "||1"]
    text = "\n".join(lines).replace("'", '"')
    (tmp_path / "commas.csv").write_text(
        '"city, or town",age,clicked\n"Rome|Bern",31,1\nOslo,"4,5",0\n,,1\n'
    )
    quoted = text.replace('"Rome|Bern"', '"Rome\0Bern"').replace("|", sign).replace("\0", "|")
    (tmp_path / "other.csv").write_text(quoted)
    with gzip.open(tmp_path / "packed.csv.gz", "wt") as file:
        file.write(quoted)
    one, *others = (
        Schema.infer(str(tmp_path / name), label="clicked")
        for name in ("commas.csv", "other.csv", "packed.csv.gz")
    )
    assert "city, or town" in repr(one)
    assert [repr(other) for other in others] == [repr(one)] * 2
