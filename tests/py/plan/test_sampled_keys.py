# SPDX-License-Identifier: Apache-2.0
"""Frequent keys are counted, and plans made, of the keys that the reader hands to the model."""

from __future__ import annotations

import logging
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hugectr
from hugectr.data import Columns, from_arrays, from_arrow
from hugectr.model import placing

SIZES, SAMPLES, BATCH = [1000, 1000, 1000], 1920, 48
#: Of keys that count from 0 in every slot, those in most samples, and what the model has of them.
COMMON, FREQUENT = [7, 14, 21], [7, 1014, 2021]
COLUMNS = Columns("label", ["d0", "d1"], {"keys": ["c0", "c1", "c2"]})
KIND = hugectr.DataReaderType_t


@pytest.fixture
def drawn(rng):
    """Labels, dense features and keys from 0 in each slot."""
    keys = rng.integers(0, SIZES, (SAMPLES, 3))
    keys = np.where(rng.random((SAMPLES, 3)) < 0.8, COMMON, keys)
    return rng.integers(0, 2, SAMPLES), rng.random((SAMPLES, 2), np.float32), keys


def moved(keys):
    return keys + np.array([0, 1000, 2000])


def table_of(drawn, keys):
    """A column more than is needed, none in the order of the Input."""
    label, dense, _ = drawn
    slots = {f"c{s}": keys[:, s] for s in (2, 0, 1)}
    return pa.table(
        {"other": keys[:, 0], "d1": dense[:, 1], **slots, "label": label * 1.0, "d0": dense[:, 0]}
    )


def raw_file(path, drawn, keys):
    label, dense, _ = drawn
    np.concatenate([label[:, None], (9 * dense).astype(int), keys], axis=1).astype("<u4").tofile(
        path
    )
    return str(path)


def parquet_with_offsets(folder, drawn):
    pq.write_table(table_of(drawn, drawn[2]), folder / "a.parquet", row_group_size=500)
    source = str(folder / "a.parquet")
    return hugectr.DataReaderParams(KIND.Parquet, source, columns=COLUMNS, slot_size_array=SIZES)


def parquet_of_named_columns(folder, drawn):
    pq.write_table(table_of(drawn, moved(drawn[2])), folder / "a.parquet", row_group_size=500)
    return hugectr.DataReaderParams(KIND.Parquet, str(folder / "a.parquet"), columns=COLUMNS)


def arrow_table(folder, drawn):
    table = table_of(drawn, drawn[2])
    data = from_arrow(table, label="label", dense=["d0", "d1"], sparse=COLUMNS.sparse)
    return hugectr.DataReaderParams(KIND.Parquet, data, slot_size_array=SIZES)


def raw_async_with_offsets(folder, drawn):
    path = raw_file(folder / "a.bin", drawn, drawn[2])
    return hugectr.DataReaderParams(KIND.RawAsync, path, slot_size_array=SIZES)


def raw_with_offsets(folder, drawn):
    path = raw_file(folder / "a.bin", drawn, drawn[2])
    return hugectr.DataReaderParams(KIND.Raw, path, slot_size_array=SIZES, add_slot_offsets=True)


def raw_as_it_is(folder, drawn):
    return hugectr.DataReaderParams(KIND.Raw, raw_file(folder / "a.bin", drawn, moved(drawn[2])))


def raw_of_so_many_samples(folder, drawn):
    path = raw_file(folder / "a.bin", drawn, moved(drawn[2]))
    return hugectr.DataReaderParams(KIND.Raw, path, num_samples=SAMPLES)


def raw_in_two_files(folder, drawn):
    label, dense, keys = drawn
    for part in range(2):
        half = slice(part * SAMPLES // 2, (part + 1) * SAMPLES // 2)
        raw_file(folder / f"{part}.bin", (label[half], dense[half], None), moved(keys[half]))
    return hugectr.DataReaderParams(KIND.Raw, str(folder / "*.bin"))


def damaged_memory(folder, drawn):
    """Every other sample has the reserved key, and is skipped."""
    label, dense, keys = drawn
    keys = moved(keys)
    keys[1::2, 0] = (1 << 63) - 1
    offsets = np.arange(keys.size + 1, dtype=np.uint64)
    data = from_arrays(label.astype(np.float32), dense, {"keys": (keys.ravel(), offsets)})
    return hugectr.DataReaderParams(KIND.Norm, data, on_bad_data="skip", max_bad_share=1.0)


def make(reader, nnz=1, i64=False):
    model = hugectr.Model(
        hugectr.CreateSolver(
            batchsize=BATCH, batchsize_eval=BATCH, vvgpu=[[0, 1]], device="cpu", i64_input_key=i64
        ),
        reader,
        hugectr.CreateOptimizer(hugectr.Optimizer_t.SGD),
    )
    model.add(
        hugectr.Input(
            1, "label", 2, "dense", [hugectr.DataReaderSparseParam("keys", nnz, nnz == 1, 3)]
        )
    )
    model.add(
        hugectr.SparseEmbedding(
            hugectr.Embedding_t.HybridSparseEmbedding, 1, 4, "sum", "table", "keys", SIZES
        )
    )
    layer, kind = hugectr.DenseLayer, hugectr.Layer_t
    model.add(layer(kind.Reshape, ["table"], ["flat"], leading_dim=12))
    model.add(layer(kind.InnerProduct, ["flat"], ["logit"], num_output=1))
    model.add(layer(kind.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    return model


CASES = {
    parquet_with_offsets: {"i64": True},
    parquet_of_named_columns: {"i64": True},
    arrow_table: {"i64": True},
    raw_async_with_offsets: {},
    raw_with_offsets: {},
    raw_as_it_is: {},
    raw_of_so_many_samples: {"nnz": 2},  # as v3's scripts write it for one key a slot
    raw_in_two_files: {"nnz": 2},
    damaged_memory: {"i64": True},
}


@pytest.mark.parametrize("source", CASES, ids=lambda source: source.__name__)
def test_frequent_keys_are_the_model_s(source, tmp_path, drawn, monkeypatch):
    chosen = []
    counted = placing.frequent_keys
    monkeypatch.setattr(
        placing, "frequent_keys", lambda *given: chosen.append(counted(*given)) or chosen[-1]
    )
    model = make(source(tmp_path, drawn), **CASES[source])
    model.compile()
    assert model.train()
    assert chosen[0].tolist() == FREQUENT


def test_a_raw_file_of_another_size_is_not_counted(tmp_path, drawn, capsys):
    """As it is not trained on: half as many samples as num_samples says are none of two keys."""
    path = raw_file(tmp_path / "a.bin", drawn, moved(drawn[2]))
    model = make(hugectr.DataReaderParams(KIND.Raw, path, num_samples=2 * SAMPLES), nnz=2)
    model.plan(machine="h200")
    said = f"were not counted.*{path} has .* bytes; {2 * SAMPLES} samples are of 24 bytes each"
    assert re.search(said, capsys.readouterr().err)
    with pytest.raises(hugectr.DataError, match=rf"{2 * SAMPLES} samples .num_samples. are of 24"):
        model.compile()


def test_a_plan_counts_the_rows_of_each_slot(tmp_path, drawn):
    """Not those of keys that are equal before the sizes of the slots are added."""
    model = make(parquet_with_offsets(tmp_path, drawn), i64=True)
    table = model.plan(machine="h200").placement.tables[0]
    keys = moved(drawn[2])
    memory = from_arrays(
        drawn[0].astype(np.float32),
        drawn[1],
        {"keys": (keys.ravel(), np.arange(keys.size + 1, dtype=np.uint64))},
    )
    same = make(hugectr.DataReaderParams(KIND.Norm, memory), i64=True)
    assert table == same.plan(machine="h200").placement.tables[0]


def test_lists_that_are_cut_count_by_their_last_keys(tmp_path, drawn, monkeypatch):
    seen = [[5] * 8 + [3]] * SAMPLES
    table = table_of(drawn, moved(drawn[2])).drop_columns(["c1"]).append_column("c1", [seen])
    data = from_arrow(
        table, label="label", dense=["d0", "d1"], sparse=COLUMNS.sparse, sequences="c1"
    )
    model = make(hugectr.DataReaderParams(KIND.Parquet, data), nnz=2, i64=True)
    found = placing._samples(model._graph, 100, "so that none is frequent")
    keys, offsets = found.sparse["keys"]
    assert found.samples == 100
    assert np.diff(offsets.astype(int)).tolist() == [1, 2, 1] * 100
    assert keys[1::4].tolist() == [5] * 100
    assert keys[2::4].tolist() == [3] * 100


def test_what_can_not_be_counted_is_told_by_what_follows(tmp_path, drawn, caplog):
    model = make(raw_as_it_is(tmp_path, drawn))
    (tmp_path / "a.bin").unlink()
    with caplog.at_level(logging.WARNING, "hugectr"):
        assert placing.frequent_of(model._graph, {}) == {"table": []}
    assert "were not counted, so that none is frequent" in caplog.text
