# SPDX-License-Identifier: Apache-2.0
"""Metrics of a model against its own predictions in float64, on one and several devices."""

import numpy as np
import pytest
from model.test_auc_of_logits import BATCH, SAMPLES, dataset, model_of
from oracle.activations import sigmoid
from oracle.metrics import calibration, hit_rate, log_loss, mse, ndcg, smape
from oracle.reals import BFLOAT16, FLOAT16, FLOAT32

import hugectr
from hugectr.data.planted import auc

ALL = {metric: 1.0 for metric in (*hugectr.MetricsType,) if metric.name != "GAUC"}


def mixed(real):
    if real is FLOAT32:
        return {}
    return {"use_mixed_precision": True, "mixed_precision_type": real.name, "scaler": 1024}


@pytest.mark.parametrize("devices", [1, 2, 4])
@pytest.mark.parametrize("real", [FLOAT32, FLOAT16, BFLOAT16], ids=lambda r: r.name)
def test_metrics_are_those_of_the_samples(rng, real, devices):
    """The last batch is not full; the second evaluation counts for itself."""
    logits = rng.uniform(-4, 2, SAMPLES).astype(np.float32)
    data, label = dataset(rng, logits)
    model = model_of(
        data,
        device="cpu",
        vvgpu=[list(range(devices))],
        repeat_dataset=False,
        metrics_spec=ALL,
        **mixed(real),
    )
    computed = real.values(real.store(logits))
    y, ones = label.astype(np.float64), np.ones(SAMPLES)
    computed = computed.astype(np.float64)
    p = sigmoid(computed)
    wanted = {
        "AUC": auc(label, computed),
        "AverageLoss": log_loss(computed, y, ones),  # of this model: nothing else is in its loss
        "LogLoss": log_loss(computed, y, ones),
        "Calibration": calibration(computed, y, ones),
        "HitRate": hit_rate(p, y, ones),
        "NDCG": ndcg(computed, y, ones),
        "SMAPE": smape(p, y, ones),
        "MSE": mse(p, y, ones),
        "Accuracy": float(((computed > 0) == (y > 0.5)).mean()),
    }
    for _ in range(2):
        found = model.evaluate()
        assert list(found) == list(wanted)
        assert found["AUC"] == pytest.approx(wanted["AUC"], rel=1e-12)
        for name in list(wanted)[1:]:
            assert found[name] == pytest.approx(wanted[name], rel=1e-6), name


@pytest.mark.parametrize("metric", ["LogLoss", "Calibration"])
def test_a_metric_alone(rng, metric):
    data, _ = dataset(rng, rng.uniform(-4, 2, BATCH).astype(np.float32))
    spec = {hugectr.MetricsType[metric]: 1.0}
    model = model_of(data, device="cpu", repeat_dataset=False, metrics_spec=spec)
    assert list(model.evaluate()) == [metric]


def test_metrics_stay_until_the_next_evaluation(rng):
    """Scripts ask for them after ``Session.evaluation``, which has asked already."""
    data, _ = dataset(rng, rng.uniform(-4, 2, SAMPLES).astype(np.float32))
    model = model_of(data, device="cpu", metrics_spec=ALL)
    assert model.eval()
    first = model.get_eval_metrics()
    assert model.get_eval_metrics() == first
    assert np.isfinite([value for _, value in first]).all()
    assert model.eval()
    second = model.get_eval_metrics()
    assert second != first  # of other samples, and of them alone
    assert model.get_eval_metrics() == second


def test_metrics_of_no_batch_say_so(rng, capsys):
    data, _ = dataset(rng, rng.uniform(-4, 2, SAMPLES).astype(np.float32))
    model = model_of(data, device="cpu")
    assert np.isnan(dict(model.get_eval_metrics())["AUC"])
    assert "AUC is nan: no batch was evaluated, see eval()" in capsys.readouterr().err
    assert model.eval()
    assert np.isfinite(dict(model.get_eval_metrics())["AUC"])


def test_no_metric_at_all(rng, capsys):
    data, _ = dataset(rng, rng.uniform(-4, 2, SAMPLES).astype(np.float32))
    model = model_of(data, device="cpu", metrics_spec={})
    assert model.evaluate() == {}
    assert model.get_eval_metrics() == []
    model.fit(max_iter=5, display=2, eval_interval=2, snapshot=0)
    said = capsys.readouterr()
    assert "Evaluation, " not in said.out + said.err
    assert said.out.count("Eval Time for 100 iters") == 2


def test_log_loss_leaves_the_regularizer_out(rng):
    """AverageLoss is what training minimises, LogLoss what it is worth."""
    data, _ = dataset(rng, rng.uniform(-2, 2, SAMPLES).astype(np.float32))
    model = model_of(data, device="cpu", repeat_dataset=False, metrics_spec=ALL, l2=0.5)
    found = model.evaluate()
    assert found["AverageLoss"] > found["LogLoss"] + 1e-4


def test_help_describes_metrics():
    text = hugectr.MetricsType.__doc__
    assert "``MetricsType.Calibration``: mean prediction / mean label" in text
