# SPDX-License-Identifier: Apache-2.0
"""Damaged Raw and Parquet data: a DataError that names the file, or a counted skip; never garbage.

Norm has its own test (test_norm.py). What can not be known is not asked for: a Raw file has no
checksum, so only its size and impossible numbers are damage.
"""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from oracle.small_net import DENSE, SIZES, build, losses

import hugectr
from hugectr.data import Columns, from_arrow
from hugectr.spec.enums import DataReaderType_t
from hugectr.tools import DataGenerator, DataGeneratorParams

ROWS = 300
COLUMNS = Columns(
    "label0",
    [f"dense{i}" for i in range(DENSE)],
    {"keys": [f"slot{i}" for i in range(len(SIZES))]},
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a good Parquet set and a good Raw file."""
    folder = tmp_path_factory.mktemp("good")
    for kind, name in ((DataReaderType_t.Parquet, "rows"), (DataReaderType_t.Raw, "a.bin")):
        DataGenerator(
            DataGeneratorParams(
                kind,
                label_dim=1,
                dense_dim=DENSE,
                num_slot=len(SIZES),
                i64_input_key=True,
                source=str(folder / "train" / name),
                eval_source=str(folder / "eval" / name),
                slot_size_array=SIZES,
                num_files=1,
                eval_num_files=1,
                num_samples_per_file=ROWS,
                num_samples=ROWS,
                eval_num_samples=ROWS,
                float_label_dense=True,
                seed=4,
            )
        ).generate(progress=False, processes=1)
    return folder / "train"


def train(kind, source, **settings):
    model = build(kind, str(source), slot_size_array=SIZES, num_workers=2, **settings)
    return losses(model, 4), model


def attempt(source, **settings):
    """The curve of a Parquet source or None, and what was complained of."""
    try:
        return train(DataReaderType_t.Parquet, source, **settings)[0], ""
    except (hugectr.DataError, hugectr.InvalidArgument) as error:
        return None, str(error)


@pytest.fixture(scope="module")
def good_curve(made):
    return train(DataReaderType_t.Parquet, made / "rows", columns=COLUMNS)[0]


def test_row_groups_that_claim_other_rows_than_the_file(made, tmp_path):
    """One bit of a row group's number of rows: pages and their checksums stay as they were."""
    original = (made / "rows" / "gen_0.parquet").read_bytes()
    path, found = tmp_path / "damaged.parquet", 0
    for at in range(len(original) - 4000, len(original)):
        for bit in (0, 5, 6):
            data = bytearray(original)
            data[at] ^= 1 << bit
            try:
                meta = pq.read_metadata(pa.BufferReader(bytes(data)))
                groups = sum(meta.row_group(i).num_rows for i in range(meta.num_row_groups))
            except (OSError, pa.ArrowException):
                continue
            if groups in (0, ROWS) or groups < 0 or meta.num_rows != ROWS:
                continue
            path.write_bytes(data)
            curve, complaint = attempt(path, columns=COLUMNS)
            assert curve is None
            assert f"row groups have {groups} rows, the file claims {ROWS}" in complaint
            found += 1
            break
    assert found >= 1


def test_250_damaged_parquet_files(made, good_curve, tmp_path, rng):
    original = bytearray((made / "rows" / "gen_0.parquet").read_bytes())
    path = tmp_path / "damaged.parquet"
    refused = 0
    for case in range(250):
        data = bytearray(original)
        if case % 5 == 4:
            data = data[: rng.integers(0, len(data))]
        else:
            # Half of the flips go into the description at the end, where they can lie best.
            low = len(data) - 4000 if case % 2 else 0
            for _ in range(rng.integers(1, 4)):
                data[rng.integers(low, len(data))] ^= 1 << rng.integers(0, 8)
        path.write_bytes(data)
        curve, complaint = attempt(path, columns=COLUMNS)
        refused += curve is None
        assert curve == good_curve or str(path) in complaint, (case, complaint)
    assert refused > 120


def test_150_raw_files_of_a_wrong_size(made, tmp_path, rng):
    original = (made / "a.bin").read_bytes()
    sample = 4 * (1 + DENSE + len(SIZES))
    path = tmp_path / "damaged.bin"
    for _ in range(150):
        size = int(rng.integers(0, len(original) + 200))
        path.write_bytes((original + b"\0" * 200)[:size])
        if size % sample == 0 and size == len(original):
            continue
        with pytest.raises((hugectr.DataError, hugectr.InvalidArgument)) as caught:
            train(DataReaderType_t.Raw, path, float_label_dense=True, num_samples=ROWS)
        assert "sample" in str(caught.value)
        assert str(path) in str(caught.value)


def damage(fields, rng):
    """Changes one thing of a _metadata.json, deep or shallow."""
    kinds = ["file_stats", "labels", "conts", "cats"]
    kind = kinds[rng.integers(4)]
    hostile = [None, 7, "x", [], {}, -1, 1e300, [[]], {"file_name": "../x"}, "\0"]
    value = hostile[rng.integers(len(hostile))]
    choice = rng.integers(4)
    if choice == 0:
        del fields[kind]
    elif choice == 1:
        fields[kind] = value
    elif choice == 2:
        fields[kind][0] = value
    else:
        entry = fields[kind][-1]
        entry[list(entry)[rng.integers(len(entry))]] = value


def test_100_hostile_metadata_files(made, good_curve, tmp_path, rng):
    folder = tmp_path / "rows"
    shutil.copytree(made / "rows", folder)
    text = (made / "rows" / "_metadata.json").read_text()
    for case in range(100):
        if case % 4 == 3:
            broken = text[: rng.integers(0, len(text) - 2)]
        else:
            fields = json.loads(text)
            damage(fields, rng)
            broken = json.dumps(fields)
        (folder / "_metadata.json").write_text(broken)
        curve, complaint = attempt(folder)
        named = str(folder) in complaint or "columns" in complaint
        assert curve == good_curve or named, (case, complaint, broken)


def table(**changes):
    """A good table with some columns exchanged."""
    rng = np.random.default_rng(1)
    columns = {"label0": pa.array((rng.random(ROWS) < 0.3).astype(np.float32))}
    columns |= {f"dense{i}": pa.array(rng.random(ROWS, np.float32)) for i in range(DENSE)}
    columns |= {f"slot{i}": pa.array(rng.integers(0, s, ROWS)) for i, s in enumerate(SIZES)}
    return pa.table(columns | changes)


def with_null(array, row):
    values = array.to_pylist()
    values[row] = None
    return pa.array(values, array.type)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: {"label0": with_null(t["label0"], 17)}, ["row 17", "label0", "null"]),
        (lambda t: {"dense1": with_null(t["dense1"], 200)}, ["row 200", "dense1", "null"]),
        (lambda t: {"slot2": with_null(t["slot2"], 3)}, ["row 3", "slot2", "null"]),
        (lambda t: {"slot1": pa.array([[1]] * 9 + [[1, 2]] + [[1]] * 290)}, ["row 9", "2 keys"]),
        (lambda t: {"slot0": t["slot0"].cast(pa.float64())}, ["slot0", "integers"]),
        (lambda t: {"slot0": t["slot0"].cast(pa.string())}, ["slot0", "numbers"]),
        (lambda t: {"label0": pa.array([[1.0]] * ROWS)}, ["label0", "lists"]),
        (lambda t: {"slot3": pa.array([2**64 - 1] * ROWS, pa.uint64())}, ["slot3", "int64"]),
    ],
)
def test_a_bad_column_is_named_and_a_bad_row_can_be_skipped(tmp_path, change, words):
    good = table()
    bad = table(**change(good))
    path = tmp_path / "bad.parquet"
    pq.write_table(bad, path, row_group_size=1000)
    memory = from_arrow(bad, label="label0", dense=COLUMNS.dense, sparse=COLUMNS.sparse)
    for source in (str(path), memory):
        settings = {"columns": COLUMNS, "slot_size_array": SIZES}
        with pytest.raises(hugectr.DataError) as caught:
            losses(build(DataReaderType_t.Parquet, source, **settings), 4)
        for word in words:
            assert word in str(caught.value)
    assert "bad.parquet" in str(caught.value) or "memory" in str(caught.value)
    if words[0].startswith("row"):
        settings["on_bad_data"] = "skip"
        model = build(DataReaderType_t.Parquet, str(path), repeat=False, **settings)
        assert len(losses(model, 10)) == -(-ROWS // 96)
        assert model.session.reader.metrics(True)["bad_samples"] == 1


def test_fewer_keys_than_a_fixed_length_are_read(tmp_path):
    """``is_fixed_length`` is a hint: an empty list is a slot without keys."""
    fewer = table(slot1=pa.array([[1]] * 9 + [[]] + [[1]] * 290))
    pq.write_table(fewer, tmp_path / "fewer.parquet")
    memory = from_arrow(fewer, label="label0", dense=COLUMNS.dense, sparse=COLUMNS.sparse)
    curves = [
        losses(build(DataReaderType_t.Parquet, source, columns=COLUMNS), 4)
        for source in (str(tmp_path / "fewer.parquet"), memory)
    ]
    assert curves[0] == curves[1]
    assert np.isfinite(curves[0]).all()


def test_missing_column_is_named_with_those_there(tmp_path):
    pq.write_table(table().drop_columns("slot2"), tmp_path / "a.parquet")
    with pytest.raises(hugectr.DataError, match=r"a\.parquet.*no column 'slot2'.*it has"):
        train(DataReaderType_t.Parquet, tmp_path / "a.parquet", columns=COLUMNS)


def test_negative_counts_of_integer_raw(tmp_path):
    words = np.zeros((ROWS, 1 + DENSE + len(SIZES)), np.int32)
    words[123, 2] = -1
    path = tmp_path / "a.bin"
    words.tofile(path)
    with pytest.raises(hugectr.DataError, match=r"a\.bin.*sample 123.*dense value 1 is -1"):
        train(DataReaderType_t.Raw, path)
    model = build(
        DataReaderType_t.Raw, str(path), slot_size_array=SIZES, on_bad_data="skip", repeat=False
    )
    losses(model, 10)
    assert model.session.reader.metrics(True)["bad_samples"] == 1


@pytest.mark.parametrize("kind", ["Raw", "RawAsync"])
def test_a_file_that_shrinks_during_training(made, tmp_path, kind):
    path = tmp_path / "a.bin"
    shutil.copy(made / "a.bin", path)
    model = build(
        DataReaderType_t[kind],
        str(path),
        slot_size_array=SIZES,
        float_label_dense=True,
        num_workers=1,
        async_param=hugectr.AsyncParam(num_threads=1, io_block_size=512),
    )
    assert len(losses(model, 2)) == 2
    with open(path, "r+b") as file:
        file.truncate(64)
    with pytest.raises(hugectr.DataError, match=r"a\.bin.*changed while it was read"):
        losses(model, 50)


def test_a_parquet_file_that_vanishes_during_training(tmp_path):
    names = [tmp_path / f"{i}.parquet" for i in range(12)]
    for name in names:
        pq.write_table(table(), name)
    model = build(
        DataReaderType_t.Parquet,
        str(tmp_path),
        slot_size_array=SIZES,
        num_workers=1,
        columns=COLUMNS,
    )
    assert len(losses(model, 1)) == 1
    for name in names:
        name.unlink()
    with pytest.raises(hugectr.DataError, match=r"\.parquet"):
        losses(model, 200)
