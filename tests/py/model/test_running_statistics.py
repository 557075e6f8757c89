# SPDX-License-Identifier: Apache-2.0
"""Running statistics and optimizer states: what is kept of them, shown, set, saved and resumed."""

import numpy as np
import pytest
from oracle.activations import batch_norm
from oracle.small_net import SIZES

import hugectr
from hugectr.data.arrays import from_arrays

BATCH, DENSE, STEPS, FACTOR, EPS, CENTER = 96, 3, 6, 0.25, 1e-5, 1e6


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(5)
    dense = (rng.standard_normal((STEPS * BATCH, DENSE)) + CENTER).astype(np.float32)
    label = dense.astype(np.float64).sum(1) > 3 * CENTER
    keys = rng.integers(0, 50, (len(label), len(SIZES)))
    return dense, from_arrays(label, dense, {"keys": keys})


def model_of(data, devices=1, optimizer="Adam"):
    """BatchNorm on dense values around a million."""
    solver = hugectr.CreateSolver(
        batchsize=BATCH,
        batchsize_eval=BATCH,
        max_eval_batches=1,
        seed=3,
        device="cpu",
        vvgpu=[list(range(devices))],
    )
    params = hugectr.DataReaderParams(
        hugectr.DataReaderType_t.Norm, data, eval_source=data, check_type=hugectr.Check_t.Sum
    )
    kind = hugectr.CreateOptimizer(hugectr.Optimizer_t[optimizer], hugectr.Update_t.Local)
    model = hugectr.Model(solver, params, kind)
    sparse = hugectr.DataReaderSparseParam("keys", 1, True, len(SIZES))
    layer, t = hugectr.DenseLayer, hugectr.Layer_t
    model.add(hugectr.Input(1, "label", DENSE, "dense", [sparse]))
    table = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
    model.add(hugectr.SparseEmbedding(table, 1, 4, "sum", "table", "keys"))
    model.add(layer(t.Reshape, ["table"], ["flat"], leading_dim=4 * len(SIZES)))
    model.add(layer(t.BatchNorm, ["dense"], ["norm"], factor=FACTOR, eps=EPS))
    model.add(layer(t.Concat, ["norm", "flat"], ["features"]))
    model.add(layer(t.InnerProduct, ["features"], ["logit"], num_output=1))
    model.add(layer(t.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    return model


def trained(data, steps=STEPS, **settings):
    model = model_of(data, **settings)
    for _ in range(steps):
        model.train()
    return model


def wanted_statistics(dense, steps=STEPS):
    mean, var = np.zeros(DENSE), np.ones(DENSE)
    for step in range(steps):
        x = dense[step * BATCH : (step + 1) * BATCH].astype(np.float64)
        mean = (1 - FACTOR) * mean + FACTOR * x.mean(0)
        var = (1 - FACTOR) * var + FACTOR * x.var(0)
    return mean, var


@pytest.mark.parametrize("devices", [1, 2])
def test_a_mean_of_a_million_costs_no_digits(samples, devices):
    dense, data = samples
    model = trained(data, devices=devices)
    mean, var = wanted_statistics(dense)
    found = model.running_statistics()["norm"]
    assert (found.mean.dtype, found.var.dtype) == (np.float64, np.float32)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-13)
    np.testing.assert_allclose(found.var, var, rtol=1e-6)

    x = dense[-BATCH:].astype(np.float64)
    ones, zeros = np.ones(DENSE), np.zeros(DENSE)
    gamma, beta = (model_of(data).dense_weight(f"norm.{name}") for name in ("gamma", "beta"))
    np.testing.assert_array_equal(gamma, ones)
    np.testing.assert_array_equal(beta, zeros)
    first = model_of(data)
    first.train()
    y = batch_norm(dense[:BATCH].astype(np.float64), np.ones(BATCH), ones, zeros, EPS)
    assert np.abs(first.check_out_tensor("norm") - y).max() < 1e-5

    # Evaluation with statistics near the data, gamma 1 and beta 0.
    for name, value in (("gamma", ones), ("beta", zeros)):
        model.set_dense_weight(f"norm.{name}", value)
    mean = x.mean(0)
    model.set_running_statistics("norm", mean, x.var(0))
    model.evaluate()
    y = (dense[:BATCH].astype(np.float64) - mean) / np.sqrt(x.var(0) + EPS)
    found_y = model.check_out_tensor("norm", hugectr.Tensor_t.Evaluate)
    assert np.abs(found_y - y).max() < 1e-5


def test_statistics_resume_to_the_bit(samples, tmp_path):
    _, data = samples
    model = trained(data, 4)
    path = model.save(tmp_path)
    resumed = model_of(data)
    resumed.resume(path)
    for one, other in zip(
        model.running_statistics()["norm"], resumed.running_statistics()["norm"], strict=True
    ):
        np.testing.assert_array_equal(one, other)
    for _ in range(5):
        model.train()
        resumed.train()
    assert model.get_current_loss() == resumed.get_current_loss()
    np.testing.assert_array_equal(
        model.running_statistics()["norm"].mean, resumed.running_statistics()["norm"].mean
    )
    assert model.evaluate() == resumed.evaluate()


def test_statistics_in_the_original_layout(samples, tmp_path):
    _, data = samples
    model = trained(data, 4)
    model.save_params_to_files(str(tmp_path / "m"), 4)
    other = model_of(data)
    other.load_dense_weights(str(tmp_path / "m_dense_4.model"))
    for one, loaded in zip(
        model.running_statistics()["norm"], other.running_statistics()["norm"], strict=True
    ):
        np.testing.assert_array_equal(one, loaded)


def test_statistics_of_a_layer_that_is_not_there(samples):
    model = model_of(samples[1])
    with pytest.raises(hugectr.InvalidArgument, match=r"allowed: one of \['norm'\].*mean 'norm'"):
        model.set_running_statistics("nomr", np.zeros(DENSE), np.ones(DENSE))
    with pytest.raises(hugectr.InvalidArgument, match=r"'norm\.mean' has 2 values"):
        model.set_running_statistics("norm", np.zeros(2), np.ones(DENSE))
    with pytest.raises(hugectr.InvalidArgument, match=r"var\[1\] of 'norm': found -1\.0"):
        model.set_running_statistics("norm", np.zeros(DENSE), [1, -1, 1])
    with pytest.raises(hugectr.InvalidArgument, match=r"mean\[2\] of 'norm': found nan"):
        model.set_running_statistics("norm", [1, 2, np.nan], np.ones(DENSE))


@pytest.mark.parametrize(
    ("optimizer", "names"),
    [("Adam", ["m", "v"]), ("AdaGrad", ["accumulator"]), ("Nesterov", ["momentum"]), ("SGD", [])],
)
def test_dense_optimizer_states_by_name(samples, optimizer, names):
    """They are the parts of the flat states that checkpoints hold."""
    model = trained(samples[1], 3, optimizer=optimizer, devices=2)
    assert model.dense_state_names() == names
    weights = model.dense_weight_names()
    flat = [
        np.asarray(model.dense_state(weight, state, device=device)).ravel()
        for state in names
        for device in (1,)
        for weight in weights
    ]
    states = model.session.network.dense_optimizer_states()
    np.testing.assert_array_equal(np.concatenate([*flat, np.zeros(0)]), states)
    assert not names or states.any()
    for state in names:
        shape = model.dense_state("logit.weight", state).shape
        assert shape == model.dense_weight("logit.weight").shape
    with pytest.raises(hugectr.InvalidArgument, match=f"allowed: one of .*{optimizer}"):
        model.dense_state("logit.weight", "speed")
    if names:
        with pytest.raises(hugectr.InvalidArgument, match="no dense weight 'nothing'"):
            model.dense_state("nothing", names[0])
