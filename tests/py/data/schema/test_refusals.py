# SPDX-License-Identifier: Apache-2.0
"""Bad data is named by column, row and value, with the way out; bad settings by their place."""

import numpy as np
import pyarrow as pa
import pytest

from hugectr.base.errors import DataError, InvalidArgument
from hugectr.data import (
    CategoricalField,
    DenseField,
    GroupField,
    LabelField,
    ListField,
    Schema,
    TimestampField,
    WeightField,
)
from hugectr.data.schema import text_files

GOOD = {
    "y": [0.0, 1.0, 1.0],
    "x": [1.0, 2.0, None],
    "c": ["a", "b", None],
    "n": [1, 2, 3],
    "l": [["a"], [], None],
    "w": [1.0, 2.0, 0.5],
    "t": ["2024-05-31", None, "2024-06-01 10:00"],
    "g": [1, 2, 2],
}
FIELDS = [
    LabelField("y"),
    DenseField("x"),
    CategoricalField("c"),
    CategoricalField("n", values="numbers"),
    ListField("l"),
    WeightField("w"),
    TimestampField("t"),
    GroupField("g"),
]
SCHEMA = Schema(FIELDS).fit(GOOD)


@pytest.mark.parametrize(
    ("column", "values", "text"),
    [
        ("x", ["1", "2", "warm"], "column 'x', row 2 .*'warm' is no number.*CategoricalField"),
        ("x", [1.0, np.inf, 3.0], "column 'x', row 1 .*: inf is infinite.*clip"),
        ("x", [1.0, 2.0, -np.inf], "column 'x', row 2 .*: -inf is infinite"),
        ("x", ["1", "inf", "2"], "column 'x', row 1 .*: inf is infinite"),
        ("x", [[1.0], [2.0], []], "column 'x' has Arrow type list.*not one number a row"),
        ("x", [{"a": 1}] * 3, "column 'x' has Arrow type struct"),
        ("x", [1.0, "two", 3.0], "column 'x', row 1 .*'two' is of type str in a column of float"),
        ("c", ["a", 5, "b"], "column 'c', row 1 .*5 is of type int in a column of str.*one type"),
        ("c", [["a"], ["b"], ["c"]], "column 'c' has Arrow type list.*ListField"),
        ("n", ["1", "two", "3"], "column 'n', row 1 .*'two' is no number.*values='text'"),
        ("n", [[1], [2], [3]], "column 'n' has Arrow type list.*ListField"),
        ("l", ["a|b", "c", None], "column 'l' has Arrow type .*give ListField a separator"),
        ("l", [1, 2, 3], "column 'l' has Arrow type int64, not lists"),
        ("l", [[["a"]], [], None], "column 'l' has Arrow type list.*one category a row"),
        ("y", [0.0, None, 1.0], "column 'y', row 1 .*the label is missing.*drop"),
        ("y", [0.0, 1.0, float("nan")], "column 'y', row 2 .*the label is missing"),
        ("y", ["yes", "no", "no"], "column 'y', row 0 .*'yes' is no number.*0 and 1"),
        ("w", [1.0, None, 1.0], "column 'w', row 1 .*the weight is missing"),
        ("w", [1.0, 1.0, -2.0], "column 'w', row 2 .*: -2.0 is negative"),
        ("t", ["2024-05-31", "soon", None], "column 't', row 1 .*'soon' is no time.*unit"),
        ("t", [1, 2**62, None], "column 't', row 1 .*is no time from 1677 to 2262"),
        ("t", [[1], [2], [3]], "column 't' has Arrow type list"),
        ("g", [1, None, 2], "column 'g', row 1 .*the group is missing"),
        ("g", np.array([1.0, 2.0, np.nan]), "column 'g', row 2 .*the group is missing"),
        ("x", np.zeros((3, 2)), "column 'x' is an array of shape"),
        ("x", 5, "column 'x' is 5, not an array"),
        ("x", [1.0, 2.0], "different lengths"),
    ],
)
def test_bad_columns(column, values, text):
    with pytest.raises(DataError, match=text):
        SCHEMA.encode({**GOOD, column: values})


def test_the_row_is_that_of_all_the_data():
    values = pa.array([1.0] * 70_000 + [np.inf])
    table = pa.table({"x": values})
    schema = Schema([DenseField("x")]).fit({"x": [1.0]})
    for call in (
        lambda: schema.fit(table),
        lambda: list(schema.encode_batches(table, rows=999, labels=False)),
        lambda: schema.encode(table, labels=False),
    ):
        with pytest.raises(DataError, match="column 'x', row 70000 "):
            call()


def test_a_number_beyond_float32_is_named():
    schema = Schema([DenseField("x", scaling="none")]).fit({"x": [1.0]})
    with pytest.raises(
        DataError, match=r"column 'x', row 1 .*: 1e\+300 is beyond float32; use log"
    ):
        schema.encode({"x": [1.0, 1e300]}, labels=False)


def test_a_missing_column_and_one_like_it():
    renamed = {("City" if name == "c" else name): values for name, values in GOOD.items()}
    schema = Schema([CategoricalField("city")]).fit({"city": ["a"]})
    with pytest.raises(DataError, match=r"the dict has no column 'city' \(did you mean 'City'\?\)"):
        schema.encode(renamed, labels=False)
    with pytest.raises(DataError, match="no column 'y'"):
        SCHEMA.encode({name: GOOD[name] for name in GOOD if name != "y"})
    SCHEMA.encode({name: GOOD[name] for name in GOOD if name not in "ywg"}, labels=False)
    with pytest.raises(DataError, match="no column 'z'"):
        Schema.infer(GOOD, label="z")


def test_duplicate_columns():
    table = pa.table([pa.array([1]), pa.array([2])], names=["x", "x"])
    for call in (Schema.infer, Schema([DenseField("x")]).fit):
        with pytest.raises(DataError, match="the table has 2 columns 'x': rename all but one"):
            call(table)


def test_duplicate_columns_of_csv(tmp_path):
    (tmp_path / "a.csv").write_text("x,x\n1,2\n")
    with pytest.raises(DataError, match=r"a.csv' has 2 columns 'x'"):
        Schema.infer(tmp_path / "a.csv")


@pytest.mark.parametrize("empty", [{"x": []}, pa.table({"x": pa.array([], pa.float64())})])
def test_no_rows(empty):
    schema = Schema([DenseField("x")])
    for call in (Schema.infer, schema.fit):
        with pytest.raises(DataError, match="no rows"):
            call(empty)
    schema.fit({"x": [1.0]})
    with pytest.raises(DataError, match="no rows"):
        schema.encode(empty, labels=False)
    with pytest.raises(DataError, match="no rows"):
        list(schema.encode_batches(empty, labels=False))


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.csv", b"", "can not be read"),
        ("a.csv", b"x,y\n", "no rows"),
        ("a.csv", b"x,y\n1,2\n1,2,3\n", r"line 3 \(row 1 from 0\) has 3 values, and 2 names are"),
        ("a.csv", b"x\n\xff\xfe\n", "UTF8|UTF-8"),
        ("a.jsonl", b'{"x": 1}\n{"x": "a"}\n', "column 'x' changed from number .* to text, 'a'"),
        ("a.jsonl", b'{"x": 1\n', "can not be read"),
        ("a.jsonl", b"", "no rows"),
        ("a.parquet", b"PAR1 and no more", "no readable Parquet"),
        ("a.csv.gz", b"not packed", "can not be read"),
    ],
)
def test_damaged_files(tmp_path, name, content, text):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=text):
        Schema.infer(path)


def test_a_file_of_another_kind_and_none(tmp_path):
    (tmp_path / "a.dat").write_text("1,2")
    with pytest.raises(InvalidArgument, match=r"a file called \*\.csv"):
        Schema.infer(tmp_path / "a.dat")
    with pytest.raises(DataError, match="can not be opened"):
        Schema.infer(tmp_path / "none.csv")
    with pytest.raises(DataError):
        Schema.infer(tmp_path / "none.parquet")
    (tmp_path / "b.csv").mkdir()
    with pytest.raises(DataError, match="a folder"):
        Schema.infer(tmp_path / "b.csv")


def test_parts_of_different_types(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"c": "a"}\n')
    (tmp_path / "b.jsonl").write_text('{"c": {"d": 1}}\n')
    schema = Schema([CategoricalField("c")])
    with pytest.raises(DataError, match="changes its type"):
        schema.fit([tmp_path / "a.jsonl", tmp_path / "b.jsonl"])


def test_encode_before_fit():
    for call in (
        lambda s: s.encode(GOOD),
        lambda s: s.encode_batches(GOOD),
        lambda s: s.input_layer(),
        lambda s: s.key_of("c", "a"),
        lambda s: s.value_of("c", 1),
    ):
        with pytest.raises(InvalidArgument, match=r"not fitted; call fit\(data\) first"):
            call(Schema(FIELDS))


def test_a_fit_that_fails_leaves_what_was_learnt():
    schema = Schema(FIELDS).fit(GOOD)
    before = schema.to_json()
    with pytest.raises(DataError):
        schema.fit({**GOOD, "x": [np.inf] * 3})
    assert schema.to_json() == before


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: DenseField(""), "DenseField: name"),
        (lambda: DenseField("x", fill="mode"), r"DenseField\('x'\): fill.*'mean', 'median'"),
        (lambda: DenseField("x", fill=np.inf), r"DenseField\('x'\): fill"),
        (lambda: DenseField("x", scaling="minmax"), r"did you mean 'min-max'"),
        (lambda: CategoricalField("c", min_count=0), "min_count"),
        (lambda: CategoricalField("c", values="int"), "values"),
        (lambda: ListField("l", separator=""), "separator"),
        (lambda: ListField("l", max_length=0), "max_length"),
        (lambda: TimestampField("t", cyclic="hour"), "cyclic"),
        (lambda: TimestampField("t", cyclic=("month",)), "cyclic"),
        (lambda: TimestampField("t", unit="min"), "unit"),
        (lambda: Schema([DenseField("x"), LabelField("x")]), "column 'x' has two fields"),
        (lambda: Schema([WeightField("x"), WeightField("z")]), "kind weight.*one of them"),
        (lambda: Schema(["x"]), r"fields\[0\]"),
        (lambda: Schema([ListField("dense")]), "name of a list"),
        (lambda: Schema([], seed=-1), "seed"),
        (lambda: Schema([]).fit({"x": [1]}), "no fields"),
        (lambda: SCHEMA.key_of("x", 1), "key_of: column"),
        (lambda: SCHEMA.key_of("C", 1), r"did you mean 'c'"),
    ],
)
def test_bad_settings(make, text):
    with pytest.raises(InvalidArgument, match=text):
        make()


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "_BLOCK_BYTES", 64)
    monkeypatch.setattr(text_files, "_LONGEST_LINE", 256)
    path = tmp_path / "long.jsonl"
    path.write_text('{"x": "' + "a" * 1000 + '"}\n')
    with pytest.raises(DataError, match="a line of more than 256 bytes"):
        Schema.infer(str(path))
    monkeypatch.setattr(text_files, "_LONGEST_LINE", 4096)
    assert [field.name for field in Schema.infer(str(path)).fields] == ["x"]
