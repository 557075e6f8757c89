# SPDX-License-Identifier: Apache-2.0
"""What nothing can be computed with is bad data, in every format; too much of it ends a run."""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hugectr
from hugectr.base.errors import DataError, InvalidArgument
from hugectr.data import from_arrays, from_arrow, from_frame, write_file_list, write_norm

sys.path.append(str(Path(__file__).resolve().parents[2]))

from faults.small_data import COLUMNS, FORMATS, arrays, model  # found through the line above

BAD_ROW = 37
RESERVED = 2**63 - 1


def data(folder, kind, label, dense, keys):
    """The samples as the source of a format."""
    if kind == "norm":
        write_norm(folder / "part.norm", label, dense, keys, check="Sum", i64=True)
        write_file_list(folder / "list.txt", [folder / "part.norm"])
        return str(folder / "list.txt")
    if kind in ("raw", "raw_async"):
        words = [label[:, None].view("<u4"), dense.view("<u4"), keys.astype("<u4")]
        np.concatenate(words, axis=1).tofile(folder / "part.bin")
        return str(folder / "part.bin")
    if kind == "arrays":
        return from_arrays(label, dense, {"keys": keys})
    columns = {"label": label} | {f"dense{i}": dense[:, i] for i in range(dense.shape[1])}
    columns |= {f"slot{i}": keys[:, i] for i in range(keys.shape[1])}
    table = pa.table(columns)
    slots = COLUMNS.sparse["keys"]
    if kind == "arrow":
        return from_arrow(table, label="label", dense=COLUMNS.dense, sparse=COLUMNS.sparse)
    if kind == "frame":
        dense = COLUMNS.dense
        return from_frame(table, label="label", dense=dense, categorical=slots, name="keys")
    pq.write_table(table, folder / "a.parquet", row_group_size=64)
    return str(folder / "a.parquet")


def train(one):
    found = []
    while one.train():
        found.append(one.get_current_loss())
    return found


def damaged(part, value):
    label, dense, keys = arrays()
    if part == "label":
        label[BAD_ROW] = value
    elif part == "dense":
        dense[BAD_ROW, 1] = value
    else:
        keys[BAD_ROW, 2] = value
    return label, dense, keys


VALUES = [
    ("label", np.nan, ["nan", "finite"]),
    ("label", -1.0, ["-1", "BinaryCrossEntropyLoss", "0 to 1"]),
    ("label", 1e30, ["1e+30", "BinaryCrossEntropyLoss"]),
    ("dense", np.nan, ["nan", "finite"]),
    ("dense", -np.inf, ["-inf", "finite"]),
]


@pytest.mark.parametrize(
    ("kind", "part", "value", "words"),
    [("raw", *value) for value in VALUES]
    + [(kind, *value) for kind in FORMATS if kind != "raw" for value in (VALUES[1], VALUES[3])],
)
def test_a_bad_value_is_named_or_skipped_and_counted(tmp_path, kind, part, value, words):
    source = data(tmp_path, kind, *damaged(part, value))
    with pytest.raises(DataError) as error:
        train(model(tmp_path, kind, source, repeat=False))
    for word in [*words, 'on_bad_data="skip"']:
        assert word in str(error.value)
    if kind in ("parquet", "arrow", "frame"):
        name = "label" if part == "label" else "dense1"
        assert f"'{name}'" in str(error.value)
    if kind == "raw":
        assert f"(sample {BAD_ROW})" in str(error.value)
        assert f"byte {36 * BAD_ROW + (0 if part == 'label' else 8)} " in str(error.value)

    one = model(tmp_path, kind, source, repeat=False, on_bad_data="skip")
    with_skipped = train(one)
    assert one.reader_metrics()["bad_samples"] == 1
    assert one.evaluate()
    # As if the sample were not there: the first batch is without it, and weighs less.
    label, dense, keys = arrays()
    label[BAD_ROW] = 1.0 - label[BAD_ROW]
    other = train(model(tmp_path, kind, data(tmp_path, kind, label, dense, keys), repeat=False))
    assert np.isfinite(with_skipped).all()
    assert with_skipped != other


@pytest.mark.parametrize("kind", ["norm", "raw", "parquet", "arrays"])
def test_evaluation_data_are_checked_too(tmp_path, kind):
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.mkdir()
    bad.mkdir()
    train_data = data(good, kind, *arrays())
    held_out = data(bad, kind, *damaged("label", 2.0))
    one = model(tmp_path, kind, train_data, eval_source=held_out)
    one.train()
    with pytest.raises(DataError, match="BinaryCrossEntropyLoss"):
        one.evaluate()


@pytest.mark.parametrize("kind", ["norm", "parquet", "arrow", "arrays"])
def test_the_reserved_key_is_skipped_like_other_bad_data(tmp_path, kind):
    source = data(tmp_path, kind, *damaged("key", RESERVED))
    one = model(tmp_path, kind, source, repeat=False, on_bad_data="skip")
    assert len(train(one)) == 4
    assert one.reader_metrics()["bad_samples"] == 1
    with pytest.raises(InvalidArgument, match="reserved"):
        train(model(tmp_path, kind, source, repeat=False))


@pytest.mark.parametrize(
    ("kind", "repeat"),
    [(kind, False) for kind in FORMATS] + [("norm", True), ("parquet", True), ("arrays", True)],
)
def test_too_much_bad_data_ends_a_run(tmp_path, kind, repeat):
    label, dense, keys = arrays()
    dense[::8, 0] = np.nan  # 12.7 %
    source = data(tmp_path, kind, label, dense, keys)
    settings = {"on_bad_data": "skip", "repeat": repeat, "num_workers": 3}

    def some(one):
        return [one.get_current_loss() for _ in range(12) if one.train()]

    one = model(tmp_path, kind, source, **settings)
    with pytest.raises(DataError, match=r"bad data \(12\.\d+ %\), max_bad_share allows 10 %") as e:
        some(one)
    assert "first reasons" in str(e.value)
    assert "nan" in str(e.value)
    with pytest.raises(DataError, match="max_bad_share"):
        one.evaluate()
    enough = model(tmp_path, kind, source, max_bad_share=0.2, **settings)
    assert len(some(enough)) == (12 if repeat else 4)


@pytest.mark.parametrize(
    ("kind", "share"), [(kind, 1.0) for kind in FORMATS] + [("norm", 0.1), ("parquet", 0.1)]
)
def test_data_of_which_nothing_counts_is_no_success(tmp_path, kind, share):
    label, dense, keys = arrays()
    label[:] = np.nan
    source = data(tmp_path, kind, label, dense, keys)
    one = model(tmp_path, kind, source, on_bad_data="skip", max_bad_share=share)
    with pytest.raises(DataError, match="max_bad_share"):
        train(one)


def test_a_text_column_read_as_keys_is_no_success(tmp_path):
    label, dense, keys = arrays()
    columns = {"label": label} | {f"dense{i}": dense[:, i] for i in range(dense.shape[1])}
    columns |= {f"slot{i}": keys[:, i].astype(str) for i in range(keys.shape[1])}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    one = model(tmp_path, "parquet", str(tmp_path / "a.parquet"), on_bad_data="skip")
    with pytest.raises(DataError, match="slot0"):
        one.train()


def test_the_bad_share_is_a_share():
    for share in (-0.1, 1.1, float("nan"), "0.1", True):
        with pytest.raises(InvalidArgument, match="max_bad_share"):
            hugectr.DataReaderParams(hugectr.DataReaderType_t.Raw, "a", max_bad_share=share)


def test_a_column_that_is_there_twice_is_said_to_be(tmp_path):
    label, dense, keys = arrays()
    table = pq.read_table(data(tmp_path, "parquet", label, dense, keys))
    double = table.append_column("slot1", table["slot1"])
    pq.write_table(double, tmp_path / "double.parquet")
    with pytest.raises(DataError, match=r"double\.parquet' has 2 columns 'slot1'"):
        model(tmp_path, "parquet", str(tmp_path / "double.parquet")).train()
    with pytest.raises(InvalidArgument, match="2 columns 'slot1'"):
        from_arrow(double, label="label", dense=COLUMNS.dense, sparse=COLUMNS.sparse)
    with pytest.raises(InvalidArgument, match="2 columns 'slot1'"):
        from_frame(double, label="label", categorical=["slot1"])
    # One that nobody reads may be there as often as it likes.
    extra = table.append_column("x", table["label"]).append_column("x", table["label"])
    pq.write_table(extra, tmp_path / "extra.parquet")
    assert model(tmp_path, "parquet", str(tmp_path / "extra.parquet")).train()


@pytest.mark.parametrize("kind", ["norm", "parquet"])
@pytest.mark.parametrize(
    "bad", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe0\x80"]
)
def test_a_list_that_is_no_utf8_is_named_with_its_byte(tmp_path, kind, bad):
    path = tmp_path / "list.txt"
    path.write_bytes(b"1\n/data/\xc3\xa4" + bad + b"\n")
    with pytest.raises(DataError, match=r"list\.txt.*byte 10 is no UTF-8") as error:
        model(tmp_path, kind, str(path), eval_source="").train()
    str(error.value).encode()
