# SPDX-License-Identifier: Apache-2.0
"""Penalties, decay and clipping of whole models against a logistic regression in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import hugectr
from hugectr.config.graph import read_graph
from hugectr.data import from_arrays

SLOTS, DENSE, D, BATCH, BATCHES, LR = 3, 4, 2, 12, 5, 0.5
ROWS = BATCH * BATCHES - 5  # the last batch is not full
RNG = np.random.default_rng(11)
FEATURES = RNG.normal(size=(ROWS, DENSE)).astype(np.float32) * 2
LABEL = (RNG.random(ROWS) < 0.4).astype(np.float32)
KEYS = RNG.integers(0, 9, (ROWS, SLOTS)) + 9 * np.arange(SLOTS)  # most rows occur several times
DATA = from_arrays(LABEL, FEATURES, {"keys": KEYS})
TYPES = [f"{kind}SlotSparseEmbeddingHash" for kind in ("Distributed", "Localized")]

Rows = dict[int, npt.NDArray[np.float64]]


def make(devices: int = 1, kind: str = TYPES[0], exchange: str = "auto", **settings: Any) -> Any:
    table = settings.pop("table", {})
    solver = settings.pop("solver", {})
    optimizer = settings.pop("optimizer", hugectr.Optimizer_t.SGD)
    model = hugectr.Model(
        hugectr.CreateSolver(
            batchsize=BATCH,
            batchsize_eval=BATCH,
            max_eval_batches=0,
            lr=LR,
            seed=3,
            i64_input_key=True,
            repeat_dataset=False,
            device="cpu",
            vvgpu=[list(range(devices))],
            **solver,
        ),
        hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, DATA),
        hugectr.CreateOptimizer(optimizer, hugectr.Update_t.Local, **settings),
    )
    keys = [hugectr.DataReaderSparseParam("keys", 1, True, SLOTS)]
    model.add(hugectr.Input(1, "label", DENSE, "dense", keys))
    model.add(
        hugectr.SparseEmbedding(
            hugectr.Embedding_t[kind], 1, D, "sum", "emb", "keys", exchange=exchange, **table
        )
    )
    layer, types = hugectr.DenseLayer, hugectr.Layer_t
    model.add(layer(types.Reshape, ["emb"], ["flat"], leading_dim=SLOTS * D))
    model.add(layer(types.Concat, ["flat", "dense"], ["x"]))
    model.add(layer(types.InnerProduct, ["x"], ["logit"], num_output=1))
    model.add(layer(types.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    return model


def epoch(model: Any) -> None:
    model.get_data_reader_train().set_source("")
    while model.train():
        pass


def rows_of(model: Any) -> Rows:
    bag = model.session.table(0).dump(True)
    return {int(k): v.astype(np.float64) for k, v in zip(bag["keys"], bag["vectors"], strict=True)}


class Regression:
    """The model in float64."""

    def __init__(self, model: Any) -> None:
        model.set_learning_rate(0.0)  # an epoch that begins all rows and changes nothing
        epoch(model)
        model.set_learning_rate(LR)
        self.rows = rows_of(model)
        self.weights = model.session.network.dense_weights().astype(np.float64)

    def epoch(self, **settings: Any) -> list[float]:
        """Norms of the gradients of the steps."""
        starts = range(0, ROWS, BATCH)
        return [self._step(slice(i, min(i + BATCH, ROWS)), **settings) for i in starts]

    def _step(
        self,
        batch: slice,
        l1: float = 0.0,
        l2: float = 0.0,
        weight_decay: float = 0.0,
        clip_value: float = 0.0,
        clip_norm: float = 0.0,
        penalty: Any = lambda w: 0 * w,
        frozen: bool = False,
    ) -> float:
        keys, label = KEYS[batch], LABEL[batch]
        flat = np.stack(
            [np.concatenate([self.rows[k] for k in sample]) for sample in keys.tolist()]
        )
        x = np.concatenate([flat, FEATURES[batch]], axis=1)
        error = (1 / (1 + np.exp(-(x @ self.weights[:-1] + self.weights[-1]))) - label) / len(label)
        dense = np.append(x.T @ error, error.sum())
        rows: Rows = {k: np.zeros(D) for k in np.unique(keys).tolist()}
        of_input = error[:, None] * self.weights[: SLOTS * D]
        for sample, gradient in zip(keys.tolist(), of_input, strict=True):
            for slot, key in enumerate(sample):
                rows[key] += gradient[slot * D : (slot + 1) * D]
        parts = [*rows.values(), *([] if frozen else [dense])]
        norm = float(np.sqrt(sum((part**2).sum() for part in parts)))
        factor = min(1.0, clip_norm / (norm + 1e-6)) if clip_norm else 1.0

        def updated(w: Any, g: Any, extra: Any) -> Any:
            g = g * factor
            if clip_value:
                g = np.clip(g, -clip_value, clip_value)
            return w - LR * weight_decay * w - LR * (g + l2 * w + l1 * np.sign(w) + extra)

        if not frozen:
            self.weights = updated(self.weights, dense, 0.0)
        for key, gradient in rows.items():
            w = self.rows[key]
            self.rows[key] = updated(w, gradient, penalty(w))
        return norm

    def expect(self, model: Any) -> None:
        found = rows_of(model)
        assert found.keys() == self.rows.keys()
        for key, vector in self.rows.items():
            np.testing.assert_allclose(found[key], vector, rtol=2e-5, atol=2e-6)
        dense = model.session.network.dense_weights()
        np.testing.assert_allclose(dense, self.weights, rtol=2e-5, atol=2e-6)


SETTINGS = [
    {"l2": 0.1},
    {"l1": 0.02},
    {"weight_decay": 0.1},
    {"clip_value": 0.03},
    {"clip_norm": 0.6},
    {"clip_norm": 0.6, "l1": 0.02, "l2": 0.1, "weight_decay": 0.1},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: "+".join(settings))
@pytest.mark.parametrize(
    ("devices", "kind", "exchange"),
    [
        (1, TYPES[0], "auto"),
        (3, TYPES[0], "pooled"),
        (2, TYPES[1], "pooled"),
        (3, TYPES[0], "unique"),
    ],
)
def test_a_model_goes_the_way_of_the_formula(
    devices: int, kind: str, exchange: str, settings: dict[str, float]
) -> None:
    model = make(devices, kind, exchange, **settings)
    exact = Regression(model)
    norms = []
    for _ in range(3):
        norms += exact.epoch(**settings)
        epoch(model)
    held = settings.get("clip_norm")
    assert held is None or min(norms) < held < max(norms), "some steps are held, others are not"
    exact.expect(model)


@pytest.mark.parametrize("regularizer", list(hugectr.Regularizer_t), ids=str)
@pytest.mark.parametrize("devices", [1, 2])
def test_a_table_has_a_regularizer_of_its_own(devices: int, regularizer: Any) -> None:
    """lambda times the sum over a batch's distinct rows, as if it were part of the loss."""
    model = make(devices, table={"regularizer": regularizer, "regularizer_lambda": 0.07})
    exact = Regression(model)
    for _ in range(2):
        exact.epoch(
            penalty=np.vectorize(
                lambda w: 0.07 * (np.sign(w) if regularizer.name == "L1" else w), otypes=[float]
            )
        )
        epoch(model)
    exact.expect(model)


def test_frozen_weights_are_no_part_of_the_norm() -> None:
    model = make(2, clip_norm=0.02)
    exact = Regression(model)
    model.freeze_dense()
    exact.epoch(clip_norm=0.02, frozen=True)
    epoch(model)
    exact.expect(model)


@pytest.mark.parametrize("devices", [1, 2])
def test_the_norm_does_not_know_of_the_loss_scale(devices: int) -> None:
    """float16: the same factor as without, but for the rounding of the numbers."""
    solver = {"use_mixed_precision": True, "dynamic_loss_scaling": True}
    model = make(devices, clip_norm=0.05, solver=solver)
    exact = Regression(model)
    exact.epoch(clip_norm=0.05)
    epoch(model)
    for key, vector in rows_of(model).items():
        np.testing.assert_allclose(vector, exact.rows[key], atol=3e-4)
    dense = model.session.network.dense_weights()
    np.testing.assert_allclose(dense, exact.weights, atol=3e-4)
    assert model.skipped_steps() == 0


@pytest.mark.parametrize("optimizer", ["Adam", "RMSProp", "RowWiseAdaGrad"])
def test_a_run_that_is_resumed_has_the_same_bits(tmp_path: Path, optimizer: str) -> None:
    settings = {
        "optimizer": hugectr.Optimizer_t[optimizer],
        "weight_decay": 0.1,
        "l2": 0.01,
        "clip_norm": 0.3,
    }
    whole, half = make(2, **settings), make(2, **settings)
    for model in (whole, half):
        epoch(model)
    half.save(tmp_path / "half")
    resumed = make(2, **settings)
    resumed.resume(tmp_path / "half")
    for model in (whole, resumed):
        epoch(model)
    a, b = rows_of(whole), rows_of(resumed)
    assert a.keys() == b.keys()
    for key, vector in a.items():
        np.testing.assert_array_equal(vector, b[key])
    np.testing.assert_array_equal(
        whole.session.network.dense_weights(), resumed.session.network.dense_weights()
    )


def test_a_graph_file_has_what_a_table_is_updated_by(tmp_path: Path) -> None:
    table = {"regularizer": hugectr.Regularizer_t.L1, "regularizer_lambda": 0.07}
    make(table=table, clip_norm=0.3, l2=0.1).graph_to_json(tmp_path / "graph.json")
    optimizer = read_graph(tmp_path / "graph.json")[0].embeddings[0].optimizer
    assert optimizer is not None
    assert (optimizer.l1, optimizer.l2, optimizer.clip_norm) == (0.07, 0.1, 0.0)


def test_another_penalty_is_another_run(tmp_path: Path) -> None:
    model = make(l2=0.1)
    epoch(model)
    model.save(tmp_path / "one")
    with pytest.raises(hugectr.InvalidArgument, match="l2: checkpoint"):
        make(l2=0.2).resume(tmp_path / "one")


def test_settings_of_zero_change_no_bit() -> None:
    plain, zero = make(), make(l1=0.0, l2=0.0, weight_decay=0.0, clip_value=0.0, clip_norm=0.0)
    for model in (plain, zero):
        epoch(model)
    assert rows_of(plain)[0].tobytes() == rows_of(zero)[0].tobytes()


def test_the_reported_loss_has_no_part_of_the_penalty() -> None:
    plain, penalised = make(), make(l2=5.0, weight_decay=0.3)
    for model in (plain, penalised):
        model.get_data_reader_train().set_source("")
        model.train()
    assert plain.get_current_loss() == penalised.get_current_loss()


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"regularizer_lambda": 0.1}, "regularizer: found None"),
        ({"regularizer": "L2"}, "regularizer: found 'L2'"),
        ({"regularizer": hugectr.Regularizer_t.L2, "regularizer_lambda": -1}, "regularizer_lambda"),
        (
            {"optimizer": hugectr.CreateOptimizer(hugectr.Optimizer_t.SGD, clip_norm=1.0)},
            "clip_norm of the model's optimizer",
        ),
    ],
)
def test_what_a_table_can_not_have_is_refused(table: dict[str, Any], said: str) -> None:
    with pytest.raises(hugectr.InvalidArgument, match=said):
        make(table=table)
