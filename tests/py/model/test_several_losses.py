# SPDX-License-Identifier: Apache-2.0
"""Several losses and labels: a net of dense features against the same in float64."""

import re
from itertools import pairwise

import numpy as np
import pytest
from oracle import metrics
from oracle.activations import LOSSES, PREDICTIONS, binary_cross_entropy, sigmoid

import hugectr
from hugectr.data import from_arrays

ROWS, DENSE, BATCH = 50, 4, 24
T = hugectr.Layer_t
ALL = dict.fromkeys(hugectr.MetricsType, 1.1)


def model_of(data, inputs, add, devices=1, batch=BATCH, spec=None, mixed=None, **compiled):
    solver = hugectr.CreateSolver(
        batchsize=batch,
        batchsize_eval=batch,
        max_eval_batches=100,
        lr=0.2,
        seed=3,
        device="cpu",
        vvgpu=[list(range(devices))],
        repeat_dataset=False,
        metrics_spec=spec or {hugectr.MetricsType.AverageLoss: 1.1},
        **(mixed or {}),
    )
    params = hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, data, eval_source=data)
    model = hugectr.Model(solver, params, hugectr.CreateOptimizer(hugectr.Optimizer_t.SGD))
    model.add(inputs)
    add(lambda *arguments, **more: model.add(hugectr.DenseLayer(*arguments, **more)))
    model.compile(**compiled)
    return model


def inputs_of(dims, names, **more):
    return hugectr.Input(dims, names, DENSE, "dense", [], **more)


def train_all(model):
    while model.train():
        pass


def weights_of(model):
    return {n: np.array(model.dense_weight(n), np.float64) for n in model.dense_weight_names()}


def three_tasks(add, regularizer=None):
    """A click, a price that counts by a column, two tags of which some are not known."""
    more = {} if regularizer is None else {"use_regularizer": True, "lambda": regularizer}
    more |= {} if regularizer is None else {"regularizer_type": hugectr.Regularizer_t.L2}
    add(T.InnerProduct, ["dense"], ["x"], num_output=1)
    add(T.InnerProduct, ["dense"], ["y"], num_output=1)
    add(T.InnerProduct, ["dense"], ["z"], num_output=2)
    add(T.BinaryCrossEntropyLoss, ["x", "click"], ["click_loss"], bce_pos_weight=2.0, **more)
    add(T.MSELoss, ["y", "price", "importance"], ["price_loss"])
    weights = [0.5, 2.0]
    add(T.MultiCrossEntropyLoss, ["z", "tags"], ["tags_loss"], target_weight_vec=weights)


NAMES = ["click", "price", "tags", "importance", "user"]
DIMS = [1, 1, 2, 1, 1]


def draw(rng, rows=ROWS):
    dense = rng.standard_normal((rows, DENSE)).astype(np.float32)
    label = np.empty((rows, 6), np.float32)
    label[:, 0] = rng.random(rows) < 0.4
    label[:, 1] = rng.standard_exponential(rows) * 2  # a price: gains of one sign, none cancel
    label[:, 2:4] = rng.choice([-1, 0, 1], (rows, 2))
    label[:, 4] = rng.random(rows)
    label[:, 5] = rng.integers(0, 9, rows) * 1e6
    return dense, label


def three_losses(weights, dense, label):
    """Each loss of a batch, and the gradient of its sum by the logits."""
    x, y, z = (dense @ weights[f"{n}.weight"] + weights[f"{n}.bias"] for n in "xyz")
    rows, w = len(dense), label[:, 4:5] / label[:, 4].sum()
    click, price, tags = label[:, 0:1], label[:, 1:2], label[:, 2:4]
    values = [
        LOSSES["BinaryCrossEntropyLoss"](x, click, 2.0).mean(),
        (w * (y - price) ** 2).sum(),
        LOSSES["MultiCrossEntropyLoss"](z, tags, 1.0, [0.5, 2.0]).mean(),
    ]
    known = (tags >= -0.5) * np.array([0.5, 2.0])
    gradients = {
        "x": (sigmoid(x) * (1 + click) - 2 * click) / rows,
        "y": 2 * w * (y - price),
        "z": known * (sigmoid(z) - tags) / 2 / rows,
    }
    return values, gradients


@pytest.mark.parametrize("devices", [1, 2, 4])
def test_training_is_that_of_the_weighted_sum(rng, devices):
    """The last batch is not full; its penalty is that of every step."""
    dense, label = draw(rng)
    parts, lam = [0.7, 0.2, 1.5], 0.01
    model = model_of(
        from_arrays(label, dense, {}),
        inputs_of(DIMS, NAMES, label_weights=[0.7, 5.0, 1.5, 1, 1]),
        lambda add: three_tasks(add, lam),
        devices,
        loss_names=["price_loss"],
        loss_weights=[0.2],
    )
    weights = weights_of(model)
    for first in range(0, ROWS, BATCH):
        rows = slice(first, first + BATCH)
        x, y = dense[rows].astype(np.float64), label[rows].astype(np.float64)
        values, gradients = three_losses(weights, x, y)
        squares = sum((w**2).sum() for w in weights.values())
        assert model.train()
        found = model.get_current_losses()
        assert list(found) == ["click_loss", "price_loss", "tags_loss"]
        np.testing.assert_allclose(list(found.values()), values, rtol=1e-5)
        total = np.dot(parts, values) + lam * squares / 2 / BATCH
        assert model.get_current_loss() == pytest.approx(total, rel=1e-5)
        for name, part in zip("xyz", parts, strict=True):
            slope = part * gradients[name]
            for key, gradient in (("weight", x.T @ slope), ("bias", slope.sum(0))):
                w = weights[f"{name}.{key}"]
                step = gradient.reshape(w.shape) + lam * w / BATCH
                weights[f"{name}.{key}"] = w - 0.2 * step
        for name, value in weights_of(model).items():
            np.testing.assert_allclose(value, weights[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("devices", [1, 2, 4])
def test_metrics_of_every_task(rng, devices):
    dense, label = draw(rng)
    inputs = inputs_of(DIMS, NAMES, group_name="user")
    data = from_arrays(label, dense, {})
    model = model_of(data, inputs, three_tasks, devices, spec=ALL)
    weights = weights_of(model)
    x, y, z = (dense @ weights[f"{n}.weight"] + weights[f"{n}.bias"] for n in "xyz")
    y64, ones = label.astype(np.float64), np.ones(ROWS)
    tasks = {
        "click": (x[:, 0], y64[:, 0], ones, sigmoid),
        "price": (y[:, 0], y64[:, 1], y64[:, 4], np.copy),
        "tags_0": (z[:, 0], y64[:, 2], (y64[:, 2] >= 0) * 1.0, sigmoid),
        "tags_1": (z[:, 1], y64[:, 3], (y64[:, 3] >= 0) * 1.0, sigmoid),
    }
    found = model.evaluate()
    for name, (score, own, w, predicts) in tasks.items():
        p, group = predicts(score), y64[:, 5]
        wanted = {
            "AUC": metrics.auc_by_pairs(score, own, w),
            "NDCG": metrics.ndcg(score, own, w),
            "GAUC": metrics.gauc(score, own, w, group),
            "SMAPE": metrics.smape(p, own, w),
            "MSE": metrics.mse(p, own, w),
        }
        if predicts is sigmoid:
            wanted["LogLoss"] = metrics.log_loss(score, own, w)
            wanted["Calibration"] = metrics.calibration(score, own, w)
        assert f"LogLoss_{name}" not in found or predicts is sigmoid
        for metric, value in wanted.items():
            assert found[f"{metric}_{name}"] == pytest.approx(value, rel=2e-5), (metric, name)
    for metric in ("AUC", "GAUC", "NDCG"):
        of_mean = [name for name in tasks if metric == "NDCG" or name != "price"]
        assert found[metric] == np.mean([found[f"{metric}_{name}"] for name in of_mean])
    assert found["AverageLoss"] == pytest.approx(
        sum(found[f"AverageLoss_{name}"] for name in ("click_loss", "price_loss", "tags_loss")),
        rel=1e-6,
    )
    assert model.evaluate() == pytest.approx(found, nan_ok=True)


def test_predictions_of_every_task(rng, tmp_path):
    dense, label = draw(rng)
    data = from_arrays(label, dense, {})
    model = model_of(data, inputs_of(DIMS, NAMES, group_name="user"), three_tasks, spec=ALL)
    weights = weights_of(model)
    x, y, z = (dense @ weights[f"{n}.weight"] + weights[f"{n}.bias"] for n in "xyz")
    wanted = np.concatenate([sigmoid(x), y, sigmoid(z)], axis=1)
    model.save(tmp_path / "run")
    loaded = hugectr.load(tmp_path / "run", device="cpu")
    named = {"dense": dense}
    labels = {
        name: label[:, first : first + dim]
        for name, dim, first in zip(NAMES, DIMS, np.cumsum([0, *DIMS[:-1]]), strict=True)
    }
    for one in (model, loaded):
        found = one.predict(named)
        assert found.shape == (ROWS, 4)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(one.predict(named, output="price_loss"), found[:, 1])
        np.testing.assert_array_equal(one.predict(named, output="tags_loss"), found[:, 2:])
        np.testing.assert_allclose(
            one.predict(named, output="logit"), np.hstack([x, y, z]), rtol=1e-4, atol=1e-6
        )
    evaluated = loaded.evaluate({**named, **labels}, metrics=["AUC", "GAUC", "AverageLoss"])
    for name, value in model.evaluate().items():
        if name in evaluated:
            assert evaluated[name] == pytest.approx(value, rel=1e-6)
    assert set(evaluated) == {"AUC", "GAUC", "AverageLoss"}


def test_one_label_of_several_columns_is_sliced(rng):
    """The same numbers as with labels of their own."""
    dense, label = draw(rng)
    data = from_arrays(label[:, :2], dense, {})

    def sliced(add):
        add(T.Slice, ["label"], ["click", "price"], ranges=[(0, 1), (1, 2)])
        two(add)

    def two(add):
        add(T.InnerProduct, ["dense"], ["x"], num_output=1)
        add(T.InnerProduct, ["dense"], ["y"], num_output=1)
        add(T.BinaryCrossEntropyLoss, ["x", "click"], ["a"])
        add(T.HuberLoss, ["y", "price"], ["b"], huber_delta=0.5)

    models = [
        model_of(data, inputs_of(2, "label"), sliced),
        model_of(data, inputs_of([1, 1], ["click", "price"]), two),
    ]
    for model in models:
        train_all(model)
    first, second = (weights_of(model) for model in models)
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name])
    assert models[0].evaluate() == models[1].evaluate()


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_labels_and_weights_stay_float32_in_mixed_precision(rng, kind, devices):
    """Labels of several columns too; the losses are those of the logits in 16 bits."""
    dense, label = draw(rng)
    data = from_arrays(label, dense, {})

    def sliced(add):
        names, bounds = ["click", "price", "tags", "importance"], [0, 1, 2, 4, 5]
        ranges = list(pairwise(bounds))
        add(T.Slice, ["label"], names, ranges=ranges)
        three_tasks(add)

    mixed = {"use_mixed_precision": True, "mixed_precision_type": kind, "scaler": 256}
    model = model_of(data, inputs_of(6, "label"), sliced, devices, ROWS - 2, mixed=mixed)
    weights = weights_of(model)
    x, y = dense[:-2].astype(np.float64), label[:-2].astype(np.float64)
    wanted, gradients = three_losses(weights, x, y)
    assert model.train()
    near = 0.02 if kind == "float16" else 0.1
    np.testing.assert_allclose(list(model.get_current_losses().values()), wanted, rtol=near)
    step = 0.2 * x.T @ gradients["y"]
    moved = weights["y.weight"] - weights_of(model)["y.weight"]
    assert np.linalg.norm(moved - step) < near * np.linalg.norm(step)
    assert model.eval()
    for name, columns in (("price", slice(1, 2)), ("importance", slice(4, 5))):
        found = model.check_out_tensor(name, hugectr.Tensor_t.Evaluate)
        np.testing.assert_array_equal(found, label[:-2, columns])


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("devices", [1, 2])
def test_classes(rng, classes, devices):
    dense = rng.standard_normal((ROWS, DENSE)).astype(np.float32)
    label = rng.integers(0, classes, ROWS).astype(np.float32)

    def layers(add):
        add(T.InnerProduct, ["dense"], ["x"], num_output=classes)
        add(T.CrossEntropyLoss, ["x", "label"], ["loss"])

    spec = ALL if classes == 2 else None
    spec = {k: v for k, v in (spec or {}).items() if k.name != "GAUC"} or None
    model = model_of(
        from_arrays(label, dense, {}), inputs_of(1, "label"), layers, devices, spec=spec
    )
    weights = weights_of(model)
    x = dense @ weights["x.weight"] + weights["x.bias"]
    found = model.evaluate()
    each = LOSSES["CrossEntropyLoss"](x, label[:, None].astype(np.float64))
    assert found["AverageLoss"] == pytest.approx(each.mean(), rel=1e-5)
    wanted = PREDICTIONS["CrossEntropyLoss"](x)
    np.testing.assert_allclose(model.predict({"dense": dense}), wanted, rtol=1e-5)
    if classes == 2:
        score, ones = x[:, 1] - x[:, 0], np.ones(ROWS)
        assert found["AUC"] == pytest.approx(metrics.auc_by_pairs(score, label, ones), rel=1e-12)
        assert found["LogLoss"] == pytest.approx(
            binary_cross_entropy(score, label).mean(), rel=1e-5
        )
        assert found["MSE"] == pytest.approx(metrics.mse(wanted[:, 1], label, ones), rel=1e-5)
    first = slice(0, BATCH)
    slope = (wanted[first] - np.eye(classes)[label[first].astype(int)]) / BATCH
    model.train()
    step = weights["x.weight"] - 0.2 * dense[first].T @ slope
    np.testing.assert_allclose(weights_of(model)["x.weight"], step, rtol=1e-4, atol=1e-6)


def test_weights_of_a_column_of_ones_change_no_bit(rng):
    dense, label = draw(rng)
    label[:, 4] = 1

    def layers(bottoms):
        def add_all(add):
            add(T.InnerProduct, ["dense"], ["x"], num_output=1)
            add(T.BinaryCrossEntropyLoss, ["x", "click", *bottoms], ["loss"])

        return add_all

    data = from_arrays(label, dense, {})
    models = [model_of(data, inputs_of(DIMS, NAMES), layers(b)) for b in ([], ["importance"])]
    for model in models:
        train_all(model)
    first, second = (weights_of(model) for model in models)
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name])
    assert models[0].evaluate() == models[1].evaluate()


def test_weights_of_the_data_and_of_a_column_multiply(rng):
    dense, label = draw(rng, BATCH)
    weight = rng.integers(0, 3, BATCH).astype(np.float32)

    def layers(add):
        add(T.InnerProduct, ["dense"], ["y"], num_output=1)
        add(T.MSELoss, ["y", "price", "importance"], ["loss"])

    data = from_arrays(label, dense, {}, weight=weight)
    model = model_of(data, inputs_of(DIMS, NAMES), layers)
    weights = weights_of(model)
    y = (dense @ weights["y.weight"] + weights["y.bias"])[:, 0]
    both = (weight * label[:, 4]).astype(np.float64)
    model.train()
    wanted = (both * (y - label[:, 1]) ** 2).sum() / both.sum()
    assert model.get_current_loss() == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        (0, 1.5, "label 0 is 1.5; BinaryCrossEntropyLoss takes labels from 0 to 1"),
        (3, 2.0, "label 3 is 2; MultiCrossEntropyLoss"),
        (4, -1.0, "label 4 is -1; the weight of MSELoss"),
        (5, np.inf, "label 5 is inf; it must be a finite number"),
    ],
)
def test_labels_are_held_to_what_each_loss_takes(rng, column, value, said):
    dense, label = draw(rng)
    label[7, column] = value
    model = model_of(from_arrays(label, dense, {}), inputs_of(DIMS, NAMES), three_tasks)
    with pytest.raises(hugectr.DataError, match=said):
        train_all(model)


def test_a_class_that_is_none_is_found(rng):
    def layers(add):
        add(T.InnerProduct, ["dense"], ["x"], num_output=3)
        add(T.CrossEntropyLoss, ["x", "label"], ["loss"])

    dense, label = rng.random((8, DENSE)), np.arange(8) % 4
    model = model_of(from_arrays(label, dense, {}), inputs_of(1, "label"), layers, batch=8)
    with pytest.raises(hugectr.DataError, match="label 0 is 3; CrossEntropyLoss takes labels from"):
        model.train()


def regression(add):
    add(T.InnerProduct, ["dense"], ["y"], num_output=1)
    add(T.MSELoss, ["y", "label"], ["loss"])


def swapped(add):
    add(T.InnerProduct, ["dense"], ["y"], num_output=1)
    add(T.BinaryCrossEntropyLoss, ["label", "y"], ["loss"])


def test_labels_before_logits_are_refused(rng):
    """Their shapes fit, and nothing would be learned."""
    data = from_arrays(rng.random(8), rng.random((8, DENSE)), {})
    said = r'bottom "y" is what weights make of a sample, "label" is not: .* logits, then labels'
    with pytest.raises(hugectr.InvalidArgument, match=said):
        model_of(data, inputs_of(1, "label"), swapped, batch=8)


@pytest.mark.parametrize("bottoms", [["y", "y"], ["y", "y", "label"], ["y", "z"]])
def test_labels_that_are_learned_are_refused(rng, bottoms):
    """A loss has no gradient of them."""

    def learned(add):
        add(T.InnerProduct, ["dense"], ["y"], num_output=1)
        if "z" in bottoms:
            add(T.InnerProduct, ["dense"], ["z"], num_output=1)
        add(T.MSELoss, bottoms, ["loss"])

    data = from_arrays(rng.random(8), rng.random((8, DENSE)), {})
    with pytest.raises(hugectr.InvalidArgument, match=r"the labels .* must come from the data"):
        model_of(data, inputs_of(1, "label"), learned, batch=8)


@pytest.mark.parametrize(
    ("metric", "said"), [("LogLoss", "the probability of a label"), ("GAUC", "group_name")]
)
def test_metrics_that_a_model_lacks_the_samples_of_are_refused(rng, metric, said):
    data = from_arrays(rng.random(8), rng.random((8, DENSE)), {})
    spec = {hugectr.MetricsType[metric]: 1.0}
    with pytest.raises(hugectr.InvalidArgument, match=said):
        model_of(data, inputs_of(1, "label"), regression, batch=8, spec=spec)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([1, 1], ["a"]), "label_dims"),
        (([1, 1], ["a", "a"]), "two parts are called 'a'"),
        ((1, None), "label_name"),
    ],
)
def test_labels_that_do_not_fit_are_refused(arguments, said):
    with pytest.raises(hugectr.InvalidArgument, match=said):
        inputs_of(*arguments)
    with pytest.raises(hugectr.InvalidArgument, match="label_weights"):
        inputs_of([1, 1], ["a", "b"], label_weights=[1.0])
    with pytest.raises(hugectr.InvalidArgument, match="group_name"):
        inputs_of([1, 1], ["a", "b"], group_name="c")


def test_compile_refuses_names_that_are_none(rng):
    data = from_arrays(rng.random(8), rng.random((8, DENSE)), {})
    names = {"loss_names": ["lost"], "loss_weights": [1.0]}
    with pytest.raises(hugectr.InvalidArgument, match=r"loss_names.*'lost'.*label, loss"):
        model_of(data, inputs_of(1, "label"), regression, batch=8, **names)


def test_a_graph_file_keeps_labels_and_losses(rng, tmp_path):
    dense, label = draw(rng)
    data = from_arrays(label, dense, {})
    inputs = inputs_of(DIMS, NAMES, group_name="user", label_weights=[0.5, 1, 1, 1, 1])
    model = model_of(data, inputs, three_tasks)
    model.graph_to_json(tmp_path / "graph.json")
    again = hugectr.Model(model.solver, model.reader_params, model.opt_params)
    again.construct_from_json(tmp_path / "graph.json", True)
    again.compile()
    assert again.input.to_spec() == model.input.to_spec()
    assert again.session.network.layers() == model.session.network.layers()
    for one in (model, again):
        one.train()
    assert model.get_current_losses() == again.get_current_losses()
    assert model.get_current_loss() == again.get_current_loss()


def test_the_line_of_several_aucs(rng, capsys):
    dense, label = draw(rng)
    inputs = inputs_of(DIMS, NAMES)
    spec = {hugectr.MetricsType.AUC: 1.1, hugectr.MetricsType.AverageLoss: 1.0}
    model = model_of(from_arrays(label, dense, {}), inputs, three_tasks, spec=spec)
    model.fit(num_epochs=2, display=1, eval_interval=1, snapshot=0)
    lines = [line for line in capsys.readouterr().out.splitlines() if "AUC" in line]
    number = r"[\w.+-]+"
    pattern = rf"Evaluation, AUC: \{{{number}(, {number}){{3}}\}}, macro-averaging AUC: {number}$"
    assert lines
    assert all(re.search(pattern, line) for line in lines)
