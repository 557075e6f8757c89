# SPDX-License-Identifier: Apache-2.0
"""What each kind of field makes of a column, compared with NumPy or with the definition."""

import datetime

import numpy as np
import pyarrow as pa
import pytest
from oracle.xxh64 import key, xxh64

from hugectr.base.errors import DataError, InvalidArgument
from hugectr.data import (
    CategoricalField,
    DenseField,
    GroupField,
    IgnoredField,
    LabelField,
    ListField,
    Schema,
    SequenceField,
    TimestampField,
    WeightField,
)

NAN = float("nan")


def encoded(field, values, later=None, **columns):
    """What a schema of one field, fitted to ``values``, makes of ``later``."""
    schema = Schema([field, *columns.pop("fields", [])]).fit({field.name: values, **columns})
    data = {field.name: values if later is None else later}
    return schema, schema.encode(data, labels=False)


VALUES = np.array([3.0, -1.0, 100.0, 2.5, NAN, 0.0, 7.0])
THERE = VALUES[~np.isnan(VALUES)]


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("scaling", ["standard", "min-max", "none"])
@pytest.mark.parametrize(
    ("fill", "filled"), [("mean", THERE.mean()), ("median", 2.75), (-4.5, -4.5)]
)
def test_dense_is_filled_then_log_then_scaled(fill, filled, scaling, log):
    def scale(x):
        t, all_t = (np.sign(v) * np.log1p(np.abs(v)) if log else v for v in (x, THERE))
        if scaling == "standard":
            return (t - all_t.mean()) / all_t.std()
        if scaling == "min-max":
            return (t - all_t.min()) / (all_t.max() - all_t.min())
        return t

    later = np.array([5.0, NAN, -50.0])
    _, data = encoded(DenseField("x", fill=fill, scaling=scaling, log=log), VALUES, later)
    wanted = scale(np.array([5.0, filled, -50.0]))
    assert data.dense.dtype == np.float32
    np.testing.assert_allclose(data.dense[:, 0], wanted, rtol=1e-6, atol=1e-7)


def test_an_indicator_is_a_feature_of_its_own():
    schema, data = encoded(DenseField("x", indicator=True), VALUES)
    assert schema.dense_names == ["x", "x is missing"]
    assert data.dense[:, 1].tolist() == np.isnan(VALUES).astype(float).tolist()


@pytest.mark.parametrize("values", [[0.1] * 7, [None, None], [5]])
@pytest.mark.parametrize("scaling", ["standard", "min-max"])
def test_a_column_of_one_value_or_none_becomes_zero(values, scaling):
    _, data = encoded(DenseField("x", scaling=scaling), pa.array(values, pa.float64()))
    assert (data.dense == 0).all()


@pytest.mark.parametrize("values", [[0.0, 5e-324], [7.0, 7.0 + 1e-15]])
@pytest.mark.parametrize("scaling", ["standard", "min-max"])
def test_a_spread_next_to_nothing_is_none(values, scaling):
    _, data = encoded(DenseField("x", scaling=scaling), values, [1000.0])
    assert 990 < data.dense[0, 0] < 1001


def test_statistics_of_many_rows_are_those_of_numpy(rng):
    values = rng.standard_normal(200_000) * 3 + 1e6
    schema, _ = encoded(DenseField("x", fill="median"), values, [1.0])
    found = schema.state["x"]
    np.testing.assert_allclose(found.mean, values.mean(), rtol=1e-13)
    np.testing.assert_allclose(found.deviation, values.std(), rtol=1e-9)
    assert (found.minimum, found.maximum) == (values.min(), values.max())
    # 65,536 of them: a quantile whose rank has a standard error of 0.2 %
    rank = (values < found.median).mean()
    assert abs(rank - 0.5) < 0.01


def test_categories_have_the_keys_of_the_definition():
    seed = 11
    schema = Schema([CategoricalField("city", min_count=1)], seed=seed)
    data = schema.fit({"city": ["Oslo", "Rome"]}).encode({"city": ["Rome", "Oslo"]}, labels=False)
    own = xxh64(b"city", seed)
    keys, offsets = data.sparse["categories"]
    assert keys.tolist() == [key(b"Rome", own), key(b"Oslo", own)]
    assert offsets.tolist() == [0, 1, 2]


def test_missing_rare_and_unseen_categories_have_defined_rows():
    values = ["a", "a", "b", None, "b", "once"]
    schema, data = encoded(CategoricalField("c"), values, ["a", "b", None, "once", "never", ""])
    a, b, missing, rare, unseen, empty = data.sparse["categories"][0].tolist()
    assert rare == unseen == empty
    assert len({a, b, missing, rare}) == 4
    assert schema.input_layer().sparse[0].slot_sizes == (4,)
    assert missing == schema.key_of("c", None)
    state = schema.state["c"]
    assert (state.rows, state.missing, state.distinct) == (6, 1, 3)


def test_with_min_count_1_all_are_known_and_only_unseen_ones_are_rare():
    schema, data = encoded(CategoricalField("c", min_count=1), ["a", "b"], ["a", "b", "z"])
    assert len(set(data.sparse["categories"][0].tolist())) == 3
    assert data.sparse["categories"][0][2] == schema.key_of("c", "other")


def test_beyond_max_known_every_category_has_its_own_key():
    field = CategoricalField("c", max_known=2, vocabulary=True)
    schema, data = encoded(field, ["a", "b", "c"], ["a", "q", "r"])
    assert len(set(data.sparse["categories"][0].tolist())) == 3
    assert schema.input_layer().sparse[0].slot_sizes == (None,)
    with pytest.raises(InvalidArgument, match="no vocabulary"):
        schema.value_of("c", 5)


def test_fields_share_no_keys():
    values = [str(i) for i in range(1000)]
    fields = [CategoricalField(name, min_count=1) for name in ("a", "b")]
    data = Schema(fields).fit({"a": values, "b": values}).encode({"a": values, "b": values}, False)
    assert len(np.unique(data.sparse["categories"][0])) == 2000


@pytest.mark.parametrize(
    "later",
    [
        [1.0, NAN, 7.0, 2.5],
        pa.array(["1", None, " 7", "2.5"]),
        pa.array(["1.0", None, "7", "2.50"]).dictionary_encode(),
        pa.array([1, None, 7, 2.5], pa.float32()),
        pa.array([1, None, 7, 2.5]).cast(pa.decimal128(5, 1)),
    ],
)
def test_numbers_are_the_same_category_in_every_type(later):
    schema, data = encoded(CategoricalField("c", min_count=1), [1.0, 7.0, NAN, 2.5], later)
    wanted = [schema.key_of("c", value) for value in (1, None, 7, 2.5)]
    assert data.sparse["categories"][0].tolist() == wanted
    assert len(set(wanted)) == 4


def test_integers_of_text_keep_all_their_digits_beside_fractions():
    values = [2**53, 2**53 + 1]
    schema, data = encoded(
        CategoricalField("c", min_count=1), values, [str(2**53), str(2**53 + 1), "0.5"]
    )
    assert data.sparse["categories"][0][:2].tolist() == [schema.key_of("c", v) for v in values]


@pytest.mark.parametrize("later", [[7, None], [7.0, NAN], pa.array(["7", None], pa.string_view())])
def test_as_text_7_is_text(later):
    schema, data = encoded(CategoricalField("c", min_count=1), ["7", "x"], later)
    assert data.sparse["categories"][0].tolist() == [
        schema.key_of("c", "7"),
        schema.key_of("c", None),
    ]
    assert schema.key_of("c", "7") != schema.key_of("c", "8")


def test_booleans_and_their_words_are_the_same():
    schema, data = encoded(CategoricalField("c"), [True, False] * 3, ["True", "false", "1"])
    keys = data.sparse["categories"][0]
    assert keys.tolist() == [schema.key_of("c", v) for v in (True, False, True)]


@pytest.mark.parametrize(
    "values", [["a", "b", "a", "ø"], [3, -7, 3, 2**40], [0.5, 2.0, 0.5, -1.25]]
)
def test_a_vocabulary_goes_both_ways(values):
    schema, data = encoded(CategoricalField("c", min_count=1, vocabulary=True), values)
    keys = data.sparse["categories"][0]
    assert [schema.value_of("c", key) for key in keys] == values
    assert [schema.key_of("c", value) for value in values] == keys.tolist()
    assert schema.value_of("c", schema.key_of("c", None)) is None
    assert schema.value_of("c", schema.key_of("c", "123456")) is None  # rare
    with pytest.raises(InvalidArgument, match="a key of column 'c'"):
        schema.value_of("c", 1)


LISTS = [["a", "b", "c"], [], None, ["b"], ["c", "a"]]


@pytest.mark.parametrize("kind", [pa.list_(pa.string()), pa.large_list(pa.large_string())])
def test_lists(kind):
    schema, data = encoded(ListField("l", min_count=1), pa.array(LISTS, kind))
    a, b, c, missing = (schema.key_of("l", v) for v in ("a", "b", "c", None))
    keys, offsets = data.sparse["l"]
    assert keys.tolist() == [a, b, c, missing, b, c, a]
    assert offsets.tolist() == [0, 3, 3, 4, 5, 7]
    (inputs,) = schema.input_layer().sparse
    assert (inputs.name, inputs.nnz_per_slot, inputs.is_fixed_length) == ("l", 3, False)


def test_text_with_a_separator_is_a_list():
    texts = [None if row is None else "|".join(row) for row in LISTS]
    _, data = encoded(ListField("l", separator="|"), texts)
    _, other = encoded(ListField("l"), LISTS)
    for one, two in zip(data.sparse["l"], other.sparse["l"], strict=True):
        assert (one == two).all()


@pytest.mark.parametrize(
    ("kind", "left"), [(ListField, [["a", "b"], ["c"]]), (SequenceField, [["b", "c"], ["c"]])]
)
def test_a_list_keeps_its_first_and_a_sequence_its_last(kind, left):
    field = kind("l", min_count=1, max_length=2)
    schema, data = encoded(field, [["a", "b", "c"], ["c"]])
    assert data.sparse["l"][0].tolist() == [schema.key_of("l", v) for row in left for v in row]
    assert data.sparse["l"][1].tolist() == [0, 2, 3]


def test_later_lists_are_cut_to_the_longest_of_fit():
    _, data = encoded(ListField("l", min_count=1), [["a", "b"]], [["a"] * 5, None])
    assert data.sparse["l"][1].tolist() == [0, 2, 3]


def test_fixed_size_lists_and_slices_of_lists():
    whole = pa.array([[1, 2], [3, 4], None, [5, 6]], pa.list_(pa.int64(), 2))
    schema = Schema([ListField("l", min_count=1)]).fit({"l": whole})
    table = pa.table({"l": whole})
    keys, offsets = schema.encode(table.slice(1, 3), labels=False).sparse["l"]
    assert keys.tolist() == [schema.key_of("l", v) for v in (3, 4, None, 5, 6)]
    assert offsets.tolist() == [0, 2, 3, 5]


def test_labels_weights_and_groups():
    fields = [LabelField("y"), LabelField("z"), WeightField("w"), GroupField("g"), DenseField("x")]
    data = {"x": [1.0, 2.0], "g": [7, -1], "w": [0.5, 0], "z": [0.25, 3], "y": [True, False]}
    schema = Schema(fields).fit(data)
    made = schema.encode(data)
    assert made.label.tolist() == [[1.0, 0.25], [0.0, 3.0]]
    assert made.weight.tolist() == [0.5, 0.0]
    assert made.group.tolist() == [7, -1]
    bare = schema.encode({"x": [1.0, 2.0]}, labels=False)
    assert bare.label.shape == (2, 0)
    assert bare.samples == 2
    assert bare.weight is None
    assert bare.group is None


def test_words_of_a_dictionary_that_no_row_has_do_not_count():
    schema = Schema([CategoricalField("c", values="numbers", min_count=1)])
    schema = schema.fit({"c": ["1", "2"]})
    words = pa.array(["1", "2", "x"])
    rows = pa.DictionaryArray.from_arrays(pa.array([1, 0, None], pa.int32()), words)
    found, plain = (
        schema.encode({"c": c}).sparse["categories"][0] for c in (rows, ["2", "1", None])
    )
    np.testing.assert_array_equal(found, plain)
    bad = pa.DictionaryArray.from_arrays(pa.array([1, 0, 0, 0, 2], pa.int32()), words)
    with pytest.raises(DataError, match=r"column 'c', row 4 .*'x' is no number"):
        schema.encode({"c": bad})


@pytest.mark.parametrize("values", [["7", "x", "7"], pa.array(["7", "x", "7"]).dictionary_encode()])
def test_groups_of_text_are_equal_where_the_text_is(values):
    schema = Schema([GroupField("g")]).fit({"g": values})
    group = schema.encode({"g": values}).group
    assert group[0] == group[2] == 7
    assert group[1] not in (0, 7)
    assert schema.encode({"g": [7.0]}).group.tolist() == [7]


MOMENT = datetime.datetime(2024, 5, 31, 13, 45, tzinfo=datetime.UTC)  # a Friday
NANOSECONDS = int(MOMENT.timestamp()) * 10**9


@pytest.mark.parametrize(
    "values",
    [
        [MOMENT, None],
        pa.array([MOMENT, None], pa.timestamp("s", "America/New_York")),
        np.array(["2024-05-31T13:45", "NaT"], "datetime64[ms]"),
        ["2024-05-31 13:45:00", None],
        ["2024-05-31T15:45:00+02:00", None],
        ["2024-05-31T13:45:00Z", None],
        [int(MOMENT.timestamp()), None],
        [str(int(MOMENT.timestamp())), None],
        np.array([MOMENT.timestamp(), NAN]),
    ],
)
def test_times_are_utc_whatever_they_came_as(values):
    schema, data = encoded(TimestampField("t", ("hour", "weekday")), values)
    assert data.timestamps["t"].tolist() == [NANOSECONDS, -(2**63)]
    assert schema.dense_names == [f"t {c} {f}" for c in ("hour", "weekday") for f in ("sin", "cos")]
    angles = 2 * np.pi * np.array([13 / 24, 4 / 7])
    wanted = np.stack([np.sin(angles), np.cos(angles)], axis=1).ravel()
    np.testing.assert_allclose(data.dense[0], wanted, rtol=1e-6)
    assert (data.dense[1] == 0).all()


def test_dates_before_1970_have_their_weekday():
    _, data = encoded(TimestampField("t", ("weekday",)), pa.array([-1, -4], pa.date32()))
    wednesday, sunday = 2 * np.pi * np.array([2, 6]) / 7
    np.testing.assert_allclose(data.dense[:, 0], [np.sin(wednesday), np.sin(sunday)], atol=1e-6)


def test_ignored_columns_need_not_be_there():
    fields = [DenseField("x"), IgnoredField("id", "an id")]
    schema = Schema(fields).fit({"x": [1.0]})
    assert schema.encode({"x": [2.0]}, labels=False).samples == 1
    assert "an id" in str(schema)
