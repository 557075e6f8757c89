# SPDX-License-Identifier: Apache-2.0
"""Weights of samples, from data in memory to the loss, its gradient and the metrics."""

import numpy as np
import numpy.typing as npt
import pytest

import hugectr
from hugectr.data import Schema, from_arrays
from hugectr.data.arrays import MemoryDataset
from hugectr.data.columns import Shuffle

ROWS = 8
RNG = np.random.default_rng(5)
DENSE = RNG.normal(size=(ROWS, 3)).astype(np.float32)
LABEL = (RNG.random(ROWS) < 0.5).astype(np.float32)
WEIGHT = np.array([2.0, 0.5, 0.0, 3.25, 1.0, 1.0, 0.125, 7.0], np.float32)


def dataset(weight: npt.NDArray[np.float32] | None, dense=DENSE) -> MemoryDataset:
    keys = {"keys": np.zeros((ROWS, 1), np.int64)}
    return from_arrays(LABEL, dense, keys, weight=weight)


def linear(data: MemoryDataset, devices: int = 1) -> hugectr.Model:
    """A logit of dense features alone, trained by SGD; all rows are one batch."""
    model = hugectr.Model(
        hugectr.CreateSolver(
            batchsize=ROWS,
            batchsize_eval=ROWS,
            max_eval_batches=1,
            lr=0.5,
            seed=3,
            device="cpu",
            vvgpu=[list(range(devices))],
            metrics_spec={
                getattr(hugectr.MetricsType, name): 1.1 for name in ("LogLoss", "AverageLoss")
            },
        ),
        hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, data, eval_source=data),
        hugectr.CreateOptimizer(hugectr.Optimizer_t.SGD),
    )
    keys = [hugectr.DataReaderSparseParam("keys", 1, True, 1)]
    model.add(hugectr.Input(1, "label", 3, "dense", keys))
    kind = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
    model.add(hugectr.SparseEmbedding(kind, 1, 1, "sum", "unused", "keys"))
    layer, types = hugectr.DenseLayer, hugectr.Layer_t
    model.add(layer(types.InnerProduct, ["dense"], ["logit"], num_output=1))
    model.add(layer(types.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    return model


def weights_of(model: hugectr.Model) -> tuple[npt.NDArray[np.float64], float]:
    values = {
        name: np.array(model.dense_weight(name), np.float64) for name in model.dense_weight_names()
    }
    kernel = next(v for name, v in values.items() if name.endswith("weight"))
    bias = next(v for name, v in values.items() if name.endswith("bias"))
    return kernel.ravel(), float(bias.ravel()[0])


def losses(kernel: npt.NDArray[np.float64], bias: float) -> npt.NDArray[np.float64]:
    logit = DENSE.astype(np.float64) @ kernel + bias
    return np.log1p(np.exp(-np.abs(logit))) + np.maximum(logit, 0) - logit * LABEL


@pytest.mark.parametrize("devices", [1, 2])
def test_loss_and_gradient_are_weighted_sums_over_the_batch_size(devices: int) -> None:
    model = linear(dataset(WEIGHT), devices)
    kernel, bias = weights_of(model)
    model.train()
    assert model.get_current_loss() == pytest.approx(
        float((WEIGHT * losses(kernel, bias)).sum() / ROWS), rel=1e-6
    )
    logit = DENSE.astype(np.float64) @ kernel + bias
    gradient = WEIGHT * (1 / (1 + np.exp(-logit)) - LABEL) / ROWS
    after, bias_after = weights_of(model)
    np.testing.assert_allclose(after, kernel - 0.5 * DENSE.T @ gradient, rtol=1e-5, atol=1e-7)
    assert bias_after == pytest.approx(bias - 0.5 * gradient.sum(), rel=1e-5, abs=1e-7)


def test_metrics_are_weighted_means() -> None:
    model = linear(dataset(WEIGHT))
    each = losses(*weights_of(model))
    found = model.evaluate()
    assert found["LogLoss"] == pytest.approx((WEIGHT * each).sum() / WEIGHT.sum(), rel=1e-6)
    assert found["AverageLoss"] == pytest.approx((WEIGHT * each).sum() / ROWS, rel=1e-6)


def test_weights_of_one_change_no_bit() -> None:
    plain, ones = linear(dataset(None)), linear(dataset(np.ones(ROWS, np.float32)))
    for model in (plain, ones):
        for _ in range(3):
            model.train()
    assert weights_of(plain)[0].tobytes() == weights_of(ones)[0].tobytes()
    assert plain.evaluate() == ones.evaluate()


def test_a_bad_number_is_found_where_the_weight_is_nothing() -> None:
    dense = DENSE.copy()
    dense[2, 1] = np.nan  # WEIGHT[2] is 0
    with pytest.raises(hugectr.DataError, match="sample 2: dense value 1 is nan"):
        linear(dataset(WEIGHT, dense)).train()


@pytest.mark.parametrize(
    ("weight", "said"),
    [
        ([1.0] * 7, "rows of weight"),
        ([1.0] * 7 + [-1.0], r"weight\[7\]"),
        ([np.nan] + [1.0] * 7, r"weight\[0\]"),
        (np.ones((8, 2)), "one number a sample"),
    ],
)
def test_what_is_no_weight_is_refused(weight: object, said: str) -> None:
    with pytest.raises(hugectr.InvalidArgument, match=said):
        from_arrays(LABEL, DENSE, {}, weight=weight)


def test_the_weight_of_a_schema_trains() -> None:
    frame = {"x": DENSE[:, 0], "w": WEIGHT, "y": LABEL}
    schema = Schema.infer(frame, label="y", weight="w", dense=["x"])
    np.testing.assert_array_equal(schema.encode(frame).weight, WEIGHT)


def test_data_in_memory_is_shuffled_anew_every_epoch() -> None:
    rows = 64
    data = from_arrays(np.zeros(rows), np.arange(rows, dtype=np.float32), {})
    model = hugectr.Model(
        hugectr.CreateSolver(batchsize=8, batchsize_eval=8, max_eval_batches=1, device="cpu"),
        hugectr.DataReaderParams(
            hugectr.DataReaderType_t.Norm, data, shuffle=Shuffle(seed=1, window=rows)
        ),
        hugectr.CreateOptimizer(hugectr.Optimizer_t.SGD),
    )
    model.add(hugectr.Input(1, "label", 1, "dense", []))
    layer, types = hugectr.DenseLayer, hugectr.Layer_t
    model.add(layer(types.InnerProduct, ["dense"], ["logit"], num_output=1))
    model.add(layer(types.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    passes = []
    for _ in range(2):
        seen: list[float] = []
        for _ in range(rows // 8):
            model.train()
            seen += model.check_out_tensor("dense", hugectr.Tensor_t.Train).ravel().tolist()
        passes.append(seen)
    assert sorted(passes[0]) == sorted(passes[1]) == list(range(rows))
    assert passes[0] != list(range(rows))
    assert passes[0] != passes[1]
