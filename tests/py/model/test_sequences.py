# SPDX-License-Identifier: Apache-2.0
"""Un-pooled look-ups (combiner "concat"): positions in order, zeros behind, lengths, gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hugectr
from hugectr import DenseLayer, Embedding_t, Layer_t
from hugectr.data import Columns, MemoryDataset, from_arrays, from_arrow
from hugectr.data.norm import write_norm

POSITIONS, D, BATCH, SAMPLES, KEYS = (1, 5), 4, 24, 96, 30
DISTRIBUTED = Embedding_t.DistributedSlotSparseEmbeddingHash
LOCALIZED = Embedding_t.LocalizedSlotSparseEmbeddingHash
Floats = npt.NDArray[np.float64]


def data(seed: int = 1, positions: tuple[int, ...] = POSITIONS) -> MemoryDataset:
    """Labels that depend on the order of keys; some histories are empty."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, np.array(positions) + 1, (SAMPLES, len(positions)))
    keys = rng.integers(0, KEYS, int(counts.sum()))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    label = (rng.random(SAMPLES) < 0.5).astype(np.float32)
    return from_arrays(
        label=label, dense=rng.normal(size=(SAMPLES, 2)), sparse={"items": (keys, offsets)}
    )


def in_positions(samples: MemoryDataset, positions: tuple[int, ...] = POSITIONS) -> Any:
    """Keys (n, P), -1 where there is none, and lengths (n, slots)."""
    keys, offsets = samples.sparse["items"]
    grid = np.full((samples.samples, sum(positions)), -1, np.int64)
    starts = np.cumsum([0, *positions])
    for row in range(offsets.size - 1):
        sample, slot = divmod(row, len(positions))
        own = keys[int(offsets[row]) : int(offsets[row + 1])]
        grid[sample, starts[slot] : starts[slot] + own.size] = own
    return grid, np.diff(offsets.astype(np.int64)).reshape(samples.samples, -1)


def build(
    source: Any,
    devices: int = 1,
    positions: tuple[int, ...] = POSITIONS,
    kind: Embedding_t = DISTRIBUTED,
    exchange: str = "auto",
    lr: float = 0.5,
    columns: Columns | None = None,
    **precision: Any,
) -> hugectr.Model:
    """logit = positions and lengths through one layer."""
    solver = hugectr.CreateSolver(
        batchsize=BATCH, batchsize_eval=BATCH, max_eval_batches=4, lr=lr, seed=3,
        vvgpu=[list(range(devices))], device="cpu", **precision,
    )  # fmt: skip
    files = hugectr.DataReaderType_t.Norm if columns is None else hugectr.DataReaderType_t.Parquet
    reader = hugectr.DataReaderParams(
        files, source, None, source, hugectr.Check_t.Sum, num_workers=1, columns=columns
    )
    model = hugectr.Model(solver, reader, hugectr.CreateOptimizer(hugectr.Optimizer_t.SGD))
    items = hugectr.DataReaderSparseParam("items", list(positions), False, len(positions))
    model.add(hugectr.Input(1, "label", 2, "dense", [items]))
    model.add(hugectr.SparseEmbedding(kind, 1, D, "concat", "seq", "items", exchange=exchange))
    flat = {"leading_dim": sum(positions) * D}
    model.add(DenseLayer(Layer_t.Reshape, ["seq"], ["flat"], **flat))
    model.add(DenseLayer(Layer_t.Concat, ["flat", "items_lengths", "dense"], ["all"]))
    model.add(DenseLayer(Layer_t.InnerProduct, ["all"], ["logit"], num_output=1))
    model.add(DenseLayer(Layer_t.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    return model


def rows_of(model: hugectr.Model) -> Floats:
    """(KEYS + 1, D): the last one, of no key, is zero; so are those of keys that never trained."""
    slots = 0 if model.embeddings[0].is_localized else None
    vectors = model.embedding("seq", np.arange(KEYS), slots=slots)
    return np.concatenate([vectors, np.zeros((1, D))]).astype(np.float64)


def weights_of(model: hugectr.Model) -> Floats:
    return np.asarray(model.session.network.dense_weights(), np.float64)


class Oracle:
    """The net in float64, from the same first values."""

    def __init__(self, samples: MemoryDataset, positions: tuple[int, ...], **kind: Any) -> None:
        start = build(samples, positions=positions, lr=0.0, **kind)
        for _ in range(SAMPLES // BATCH):
            start.train()
        self.rows, self.weights = rows_of(start), weights_of(start)
        self.keys, self.lengths = in_positions(samples, positions)
        self.samples = samples

    def step(self, first: int, lr: float) -> None:
        part = slice(first, first + BATCH)
        keys, weights = self.keys[part], self.weights
        seq = self.rows[keys].reshape(BATCH, -1)
        x = np.concatenate([seq, self.lengths[part], self.samples.dense[part]], 1)
        logit = x @ weights[:-1] + weights[-1]
        g = (1 / (1 + np.exp(-logit)) - self.samples.label[part, 0]) / BATCH
        of_rows = (g[:, None] * weights[: seq.shape[1]]).reshape(*keys.shape, D)
        self.weights = weights - lr * np.append(g @ x, g.sum())
        np.add.at(self.rows, keys, -lr * of_rows)
        self.rows[-1] = 0


@pytest.mark.parametrize(
    ("kind", "positions"), [(DISTRIBUTED, POSITIONS), (DISTRIBUTED, (5,)), (LOCALIZED, (5,))]
)
@pytest.mark.parametrize(
    ("devices", "exchange"), [(1, "auto"), (2, "pooled"), (2, "unique"), (4, "auto")]
)
def test_training_is_that_of_the_formula(
    kind: Embedding_t, positions: tuple[int, ...], devices: int, exchange: str
) -> None:
    samples = data(positions=positions)
    oracle = Oracle(samples, positions, kind=kind)
    model = build(samples, devices, positions, kind, exchange)
    for step in range(6):
        assert model.train()
        oracle.step(step * BATCH % SAMPLES, 0.5)
    np.testing.assert_allclose(rows_of(model), oracle.rows, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(weights_of(model), oracle.weights, rtol=1e-5, atol=1e-6)


def test_positions_keep_their_order_and_unknown_keys_count_as_zero_vectors() -> None:
    model = build(data())
    for _ in range(4):
        model.train()
    seen = data(seed=2)
    keys, offsets = seen.sparse["items"]
    keys = keys.copy()
    keys[::7] = KEYS + 5  # nobody has trained it
    other = from_arrays(label=seen.label, dense=seen.dense, sparse={"items": (keys, offsets)})
    grid, lengths = in_positions(other)
    wanted = rows_of(model)[np.where(grid > KEYS, -1, grid)]
    np.testing.assert_array_equal(model.predict(other, output="seq"), wanted.astype(np.float32))
    np.testing.assert_array_equal(model.predict(other, output="items_lengths"), lengths)
    assert model.check_out_tensor("seq", hugectr.Tensor_t.Evaluate).shape == (BATCH, 6, D)


@pytest.mark.parametrize("kind", [DISTRIBUTED, LOCALIZED])
def test_predictions_and_evaluation_agree_live_loaded_and_on_devices(
    kind: Embedding_t, tmp_path: Path
) -> None:
    positions = POSITIONS if kind is DISTRIBUTED else (5,)
    samples = data(positions=positions)
    model = build(samples, 2, positions, kind)
    for _ in range(8):
        model.train()
    probabilities = model.predict(samples)
    model.save(tmp_path / "saved")
    loaded = hugectr.load(tmp_path / "saved", device="cpu")
    np.testing.assert_allclose(loaded.predict(samples), probabilities, rtol=1e-6)
    np.testing.assert_allclose(loaded.predict(samples, batch_size=1), probabilities, rtol=1e-5)
    aucs = []
    for devices in (1, 4):
        other = build(samples, devices, positions, kind)
        other.resume(tmp_path / "saved")
        for _ in range(4):
            other.eval()
        aucs.append(dict(other.get_eval_metrics())["AUC"])
        np.testing.assert_allclose(other.predict(samples), probabilities, rtol=1e-6)
    assert aucs[0] == aucs[1]


def test_norm_files_give_what_memory_gives_and_long_slots_are_refused(tmp_path: Path) -> None:
    samples = data()
    keys, offsets = samples.sparse["items"]
    counts = np.diff(offsets.astype(np.int64)).reshape(SAMPLES, 2)
    slots = []
    for slot in range(2):
        own = np.zeros((SAMPLES, 2), bool)
        own[:, slot] = True
        of_slot = np.repeat(own.ravel(), counts.ravel())
        slots.append((keys[of_slot], np.concatenate([[0], np.cumsum(counts[:, slot])])))
    write_norm(tmp_path / "good.norm", samples.label, samples.dense, slots)
    hugectr.data.norm.write_file_list(tmp_path / "good.txt", [tmp_path / "good.norm"])
    models = [build(samples), build(str(tmp_path / "good.txt"))]
    for model in models:
        for _ in range(4):
            model.train()
    np.testing.assert_array_equal(*[rows_of(model) for model in models])

    write_norm(tmp_path / "bad.norm", samples.label, samples.dense, slots[::-1])
    hugectr.data.norm.write_file_list(tmp_path / "bad.txt", [tmp_path / "bad.norm"])
    with pytest.raises(hugectr.DataError, match=r"slot 0 of 'items', allowed are 0 to 1"):
        build(str(tmp_path / "bad.txt")).train()


def as_table(samples: MemoryDataset, first: int = 0) -> pa.Table:
    """Samples as columns; with ``first`` so many other keys before those of each history."""
    grid, lengths = in_positions(samples)
    histories = [
        [KEYS] * first + row[1 : 1 + n].tolist() for row, n in zip(grid, lengths[:, 1], strict=True)
    ]
    columns = {"target": [row[:n].tolist() for row, n in zip(grid, lengths[:, 0], strict=True)]}
    dense = {f"d{i}": samples.dense[:, i] for i in range(2)}
    return pa.table({"y": samples.label[:, 0], **dense, **columns, "seen": histories})


@pytest.mark.parametrize("where", ["Parquet", "memory"])
@pytest.mark.parametrize("real", ["float32", "float16", "bfloat16"])
def test_tables_of_lists_give_what_memory_gives_and_keep_the_last_keys(
    where: str, real: str, tmp_path: Path
) -> None:
    samples = data()
    offsets = samples.sparse["items"][1]
    counts = np.diff(offsets.astype(np.int64)).reshape(SAMPLES, 2)
    full = (counts[:, 1] == POSITIONS[1]).nonzero()[0]
    assert len(full) > 5
    names = {"label": "y", "dense": ["d0", "d1"], "sparse": {"items": ["target", "seen"]}}
    mixed: dict[str, Any] = {}
    if real != "float32":
        mixed = {"use_mixed_precision": True, "mixed_precision_type": real, "scaler": 1024}

    def trained(source: Any, columns: Columns | None = None) -> hugectr.Model:
        model = build(source, columns=columns, **mixed)
        for _ in range(6):
            assert model.train()
        return model

    def given(table: pa.Table, sequences: tuple[str, ...]) -> hugectr.Model:
        if where == "memory":
            return trained(from_arrow(table, **names, sequences=sequences))
        pq.write_table(table, tmp_path / "rows.parquet", row_group_size=31)
        return trained(str(tmp_path / "rows.parquet"), Columns(**names, sequences=sequences))

    wanted = trained(samples)
    model = given(as_table(samples), ())
    np.testing.assert_array_equal(rows_of(model), rows_of(wanted))
    np.testing.assert_array_equal(weights_of(model), weights_of(wanted))

    # Longer by three: of a history that fills all positions they fall away, of others they do not.
    long = as_table(samples, first=3).filter(pa.array(counts[:, 1] == POSITIONS[1]))
    kept = as_table(samples).filter(pa.array(counts[:, 1] == POSITIONS[1]))
    repeats = [long.take(np.arange(SAMPLES) % len(full)), kept.take(np.arange(SAMPLES) % len(full))]
    cut, exact = (given(table, ("seen",)) for table in repeats)
    np.testing.assert_array_equal(rows_of(cut), rows_of(exact))
    np.testing.assert_array_equal(weights_of(cut), weights_of(exact))
    with pytest.raises(hugectr.DataError, match="column 'seen' has 8 keys, allowed are at most 5"):
        given(repeats[0], ())
    with pytest.raises(hugectr.InvalidArgument, match=r"Columns: sequences.*did you mean 'seen'"):
        Columns(**names, sequences="sean")


def test_what_can_not_be_is_refused() -> None:
    with pytest.raises(hugectr.InvalidArgument, match=r"not pooled .*give each slot an input"):
        build(data(), kind=LOCALIZED)
    with pytest.raises(hugectr.InvalidArgument, match=r"'sum' or 'mean'.*or 'concat'"):
        hugectr.SparseEmbedding(DISTRIBUTED, 1, D, "max", "seq", "items")


def test_graph_as_json_and_names(tmp_path: Path) -> None:
    model = build(data())
    model.graph_to_json(str(tmp_path / "graph.json"))
    again = hugectr.Model(model.solver, model.reader_params, model.opt_params)
    again.construct_from_json(str(tmp_path / "graph.json"), True)
    again.compile()
    for one in (model, again):
        for _ in range(4):
            one.train()
    np.testing.assert_array_equal(rows_of(model), rows_of(again))


def test_a_tensor_can_not_take_the_name_of_lengths_that_are_read() -> None:
    model = build(data())
    again = hugectr.Model(model.solver, model.reader_params, model.opt_params)
    again.add(model.input)
    again.add(DenseLayer(Layer_t.ReLU, ["items_lengths"], ["relu"]))
    with pytest.raises(hugectr.InvalidArgument, match="no other tensor"):
        again.add(DenseLayer(Layer_t.ReLU, ["dense"], ["items_lengths"]))
