# SPDX-License-Identifier: Apache-2.0
"""The same generated samples in every format train to the same bits, whatever the workers."""

import numpy as np
import pytest
from oracle.small_net import DENSE, SIZES, build, losses

import hugectr
from hugectr.data import Columns, Shuffle, from_arrow
from hugectr.spec.enums import Check_t, DataReaderType_t
from hugectr.tools import DataGenerator, DataGeneratorParams

ROWS, EVAL_ROWS = 1500, 500
NAMES = {"Norm": "list.txt", "Raw": "data.bin", "RawAsync": "data.bin", "Parquet": "rows"}


@pytest.fixture(scope="module", params=[1, 3], ids=["one-hot", "multi-hot"])
def data(request, tmp_path_factory):
    """``(nnz, source(format, set))`` of one data set in all formats."""
    folder = tmp_path_factory.mktemp("formats")
    for name in ("Norm", "Raw", "Parquet"):
        place = folder / name
        DataGenerator(
            DataGeneratorParams(
                DataReaderType_t[name],
                label_dim=1,
                dense_dim=DENSE,
                num_slot=len(SIZES),
                i64_input_key=True,
                source=str(place / "train" / NAMES[name]),
                eval_source=str(place / "eval" / NAMES[name]),
                slot_size_array=SIZES,
                nnz_array=[request.param] * len(SIZES),
                check_type=Check_t.Sum,
                num_files=3,
                eval_num_files=1,
                num_samples_per_file=500,
                num_samples=ROWS,
                eval_num_samples=EVAL_ROWS,
                float_label_dense=True,
                seed=11,
                planted_signal=True,
            )
        ).generate(progress=False, processes=1)

    def source(name, which="train"):
        return str(folder / name.replace("Async", "") / which / NAMES[name])

    return request.param, source


def reader(name):
    """Settings that make a format's samples those of Norm."""
    if name == "Norm":
        return {"check_type": Check_t.Sum}
    # What decides, in Raw, between one key a slot and several.
    counts = {"num_samples": ROWS, "eval_num_samples": EVAL_ROWS} if "Raw" in name else {}
    return {"slot_size_array": SIZES, "float_label_dense": True, **counts}


def model_of(data, name, **settings):
    nnz, source = data
    return build(
        DataReaderType_t[name],
        source(name),
        nnz,
        eval_source=source(name, "eval"),
        **(reader(name) | settings),
    )


@pytest.fixture(scope="module")
def wanted(data):
    model = model_of(data, "Norm")
    curve = losses(model, 40)  # twice around, with batches that hold the end and the beginning
    return curve, model.evaluate()


@pytest.mark.parametrize("workers", [1, 3, 8])
@pytest.mark.parametrize("name", list(NAMES))
def test_formats_train_and_evaluate_to_the_same_bits(data, wanted, name, workers):
    model = model_of(data, name, num_workers=workers)
    assert losses(model, 40) == wanted[0]
    assert model.evaluate() == wanted[1]


@pytest.mark.parametrize("name", list(NAMES))
def test_an_epoch_is_every_row_once(data, name):
    model = model_of(data, name, repeat=False, num_workers=3)
    found = losses(model, 1000)
    assert len(found) == -(-ROWS // 96)
    assert model.session.reader.metrics(True)["rows_decoded"] == ROWS


@pytest.mark.parametrize("name", list(NAMES))
def test_a_position_is_exact(data, wanted, name):
    for steps in (1, 7, 20):
        first = model_of(data, name)
        losses(first, steps)
        position = first.session.reader.position()
        second = model_of(data, name, num_workers=2)
        second.session.reader.set_position(position)
        fresh = model_of(data, name)
        fresh.start_data_reading()
        # The same untrained model over the rest of the data of the one and the other.
        rest = losses(second, 5)
        skipped = model_of(data, name)
        skipped.session.reader.set_position({**position})
        assert losses(skipped, 5) == rest
        for _ in range(steps):
            fresh.train()
        assert fresh.session.reader.position() == position
    assert position["epoch"] == 1


def columns():
    return Columns(
        "label0",
        [f"dense{i}" for i in range(DENSE)],
        {"keys": [f"slot{i}" for i in range(len(SIZES))]},
    )


def test_parquet_by_glob_file_list_columns_and_table(data, wanted, tmp_path):
    import pyarrow.parquet as pq

    nnz, source = data
    folder = source("Parquet")
    paths = [f"{folder}/gen_{i}.parquet" for i in range(3)]
    listed = tmp_path / "files.txt"
    listed.write_text("3\n" + "\n".join(paths) + "\n")
    whole = pq.read_table(folder)
    one = tmp_path / "one.parquet"
    pq.write_table(whole, one, row_group_size=37)
    names = columns()
    table = from_arrow(whole, label=names.label, dense=names.dense, sparse=names.sparse)
    for made in (f"{folder}/*.parquet", str(listed), str(one), table):
        model = build(DataReaderType_t.Parquet, made, nnz, slot_size_array=SIZES, columns=names)
        assert losses(model, 20) == wanted[0][:20], made


@pytest.mark.parametrize("name", ["Raw", "RawAsync", "Parquet"])
def test_a_shuffle_is_the_same_for_any_number_of_workers(data, wanted, name):
    curves = []
    for workers, seed in [(1, 5), (6, 5), (2, 6)]:
        shuffle = Shuffle(seed=seed, window=300)
        model = model_of(data, name, num_workers=workers, shuffle=shuffle)
        curves.append(losses(model, 40))
    assert curves[0] == curves[1]
    assert curves[0] != curves[2]
    assert curves[0] != wanted[0]


def test_integer_raw_is_log_of_counts(tmp_path):
    rng = np.random.default_rng()
    n = 400
    label = rng.integers(0, 2, (n, 1), dtype=np.int32)
    dense = rng.integers(0, 100000, (n, DENSE), dtype=np.int32)
    keys = np.stack([rng.integers(0, s, n, dtype=np.int32) for s in SIZES], axis=1)
    np.concatenate([label, dense, keys], axis=1).tofile(tmp_path / "a.bin")
    offsets = np.concatenate([[0], np.cumsum(SIZES[:-1])])
    memory = hugectr.data.from_arrays(
        label, np.log1p(dense.astype(np.float64)), {"keys": keys + offsets}
    )
    path = str(tmp_path / "a.bin")
    raw = build(DataReaderType_t.Raw, path, slot_size_array=SIZES, num_samples=n)
    assert losses(raw, 10) == losses(build(DataReaderType_t.Norm, memory), 10)
