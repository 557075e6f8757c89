# SPDX-License-Identifier: Apache-2.0
"""The parts of a core Session, and models that lack one: a reader, a loss, training."""

import gc

import numpy as np
import pytest

import hugectr
from hugectr import _core
from hugectr.checkpoints.manifest import read_manifest
from hugectr.data import from_arrays

SAMPLES, BATCH, VEC = 96, 24, 64
ALL, NO_TRAINING = {}, {"trains": False}


def data(seed):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, SAMPLES).astype(np.float32)
    dense = rng.normal(size=(SAMPLES, 3)).astype(np.float32)
    return from_arrays(label, dense, {"keys": rng.integers(0, 40, (SAMPLES, 2))})


def described(devices=1, precision="", hidden=64):
    """A model that is not compiled."""
    mixed = {}
    if precision:
        mixed = {"use_mixed_precision": True, "mixed_precision_type": precision}
        mixed["dynamic_loss_scaling"] = precision == "float16"
    solver = hugectr.CreateSolver(
        seed=7,
        batchsize=BATCH,
        batchsize_eval=BATCH,
        max_eval_batches=SAMPLES // BATCH,
        lr=0.01,
        i64_input_key=True,
        device="cpu",
        vvgpu=[list(range(devices))],
        metrics_spec={hugectr.MetricsType.AUC: 2.0, hugectr.MetricsType.AverageLoss: 0.0},
        **mixed,
    )
    reader = hugectr.DataReaderParams(
        hugectr.DataReaderType_t.Norm, data(1), eval_source=data(2), num_workers=1
    )
    model = hugectr.Model(solver, reader, hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam))
    keys = hugectr.DataReaderSparseParam("keys", 1, True, 2)
    model.add(hugectr.Input(1, "label", 3, "dense", [keys]))
    kind = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
    model.add(hugectr.SparseEmbedding(kind, 1, VEC, "sum", "vectors", "keys"))
    layer, t = hugectr.DenseLayer, hugectr.Layer_t
    model.add(layer(t.Reshape, ["vectors"], ["flat"], leading_dim=2 * VEC))
    model.add(layer(t.Concat, ["flat", "dense"], ["features"]))
    model.add(layer(t.InnerProduct, ["features"], ["hidden"], num_output=hidden))
    model.add(layer(t.BatchNorm, ["hidden"], ["normed"], factor=0.1, eps=1e-4))
    model.add(layer(t.Dropout, ["normed"], ["dropped"], dropout_rate=0.25))
    model.add(layer(t.ReLU, ["dropped"], ["active"]))
    model.add(layer(t.InnerProduct, ["active"], ["logit"], num_output=1))
    model.add(layer(t.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    return model


def session_of(model, changes, *, reader=True, metrics=None):
    graph = model._graph
    solver = graph.solver.to_spec()
    if metrics is not None:
        solver["metrics"] = metrics
    data = graph.reader_params.to_spec(graph.input) if reader else None
    return _core.Session(solver, data, graph.to_spec() | changes, None, graph._turn)


def compiled(changes=ALL, *, reader=True, **kind):
    """The same with a session that may lack something."""
    model = described(**kind)
    model._graph._session = session_of(model, changes, reader=reader)
    return model


def trained(steps=12, **kind):
    model = described(**kind)
    model.compile()
    for _ in range(steps):
        assert model.train()
    return model


def evaluation(model):
    logits = []
    for _ in range(SAMPLES // BATCH):
        assert model.eval()
        logits.append(model.check_out_tensor("logit", hugectr.Tensor_t.Evaluate))
    return np.concatenate(logits).tobytes(), model.get_eval_metrics()


def held(model):
    return sum(size for _, _, size in model.memory_report())


# --- without training -----------------------------------------------------------------------------


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("precision", ["", "float16", "bfloat16"])
def test_what_does_not_train_evaluates_to_the_same_bits(tmp_path, devices, precision):
    kind = {"devices": devices, "precision": precision}
    model = trained(**kind)
    path = model.save(tmp_path)
    wanted = evaluation(model)
    other = compiled(NO_TRAINING, **kind)
    assert other.resume(path).taken == ("everything but what only training needs",)
    assert evaluation(other) == wanted
    assert not other.session.trains()
    assert other.session.step() == 12


def test_what_does_not_train_holds_nothing_of_training(tmp_path):
    model = trained()
    path = model.save(tmp_path)
    other = compiled(NO_TRAINING)
    other.resume(path)
    evaluation(model)
    evaluation(other)
    of_training = ("training", "gradient", "optimizer")
    for owner, name, size in other.memory_report():
        assert not any(word in f"{owner} {name}" for word in of_training), (owner, name, size)
    assert set(other.session.table(0).parts()) == {"key", "vector"}
    assert other.session.network.dense_optimizer_states().size == 0
    # Of Adam: two states and a gradient for every weight, two states for every row.
    assert 2 * held(other) < held(model)


def test_what_does_not_train_says_so(tmp_path):
    other = compiled(NO_TRAINING)
    for call in (other.train, other.get_current_loss):
        with pytest.raises(hugectr.InvalidArgument, match=r"not to train.*trains = true"):
            call()
    with pytest.raises(hugectr.InvalidArgument, match="nothing to go on from"):
        other.save(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(hugectr.InvalidArgument, match="does not train"):
        other.tensor("active")
    reader = described()._graph
    data = reader.reader_params.to_spec(reader.input) | {"eval_memory": None}
    with pytest.raises(hugectr.InvalidArgument, match="no eval_source"):
        _core.Session(reader.solver.to_spec(), data, reader.to_spec() | NO_TRAINING)


def test_another_model_is_refused_all_the_same_and_parts_of_it_are_taken(tmp_path):
    path = trained().save(tmp_path)
    other = compiled(NO_TRAINING, hidden=32)
    with pytest.raises(hugectr.InvalidArgument, match="hidden"):
        other.resume(path)
    resumed = other.resume(path, strict=False)
    assert "rows of table 'vectors'" in resumed.taken
    assert "optimizer states of table 'vectors': the model does not train" in resumed.left
    assert "dense optimizer states: the model does not train" in resumed.left


# --- without a reader -----------------------------------------------------------------------------


def test_without_a_reader_all_else_works(tmp_path):
    model = trained()
    path = model.save(tmp_path / "whole")
    other = compiled(reader=False)
    session = other.session
    assert not session.has_reader()
    for call in (other.train, other.eval, lambda: session.reader):
        with pytest.raises(hugectr.InvalidArgument, match="without a reader: build it with one"):
            call()
    other.resume(path)
    assert session.step() == 12
    np.testing.assert_array_equal(
        session.network.dense_optimizer_states(), model.session.network.dense_optimizer_states()
    )
    assert other.table_stats()[0]["rows"] == model.table_stats()[0]["rows"]
    assert held(other) <= held(model)  # a plan has buffers from its first batch on
    # What it saves knows no place in the data: who resumes it keeps its own.
    again = other.save(tmp_path / "again")
    assert read_manifest(again)["data_position"] is None
    position = model.session.reader.position()
    model.resume(again)
    assert model.session.reader.position() == position


# --- without a loss -------------------------------------------------------------------------------


def test_without_a_loss_nothing_trains_and_tensors_are_there(tmp_path):
    model = trained()
    path = model.save(tmp_path)
    whole = compiled(NO_TRAINING)
    whole.resume(path)
    layers = whole._graph.to_spec()["layers"][:-1]
    with pytest.raises(hugectr.InvalidArgument, match=r"'AUC'.*no loss"):
        session_of(whole, {"layers": layers})
    session = session_of(whole, {"layers": layers}, metrics=[])
    assert not session.trains()
    with pytest.raises(hugectr.InvalidArgument, match="no loss to train by: make one its last"):
        session.train()
    session.network.set_dense_weights(whole.session.network.dense_weights())
    session.network.set_non_trainables(whole.session.network.non_trainables())
    session.table(0).load(whole.session.table(0).dump())
    for _ in range(SAMPLES // BATCH):
        assert session.eval()
        assert whole.eval()
        np.testing.assert_array_equal(
            session.network.check_out_tensor("logit", False),
            whole.session.network.check_out_tensor("logit", False),
        )
    assert session.get_eval_metrics() == []
    assert sum(size for _, _, size in session.memory_report()) <= held(whole)


# --- the parts ------------------------------------------------------------------------------------


def test_a_part_keeps_its_session():
    model = trained(2)
    session = model.session
    parts = session.table(0), session.network, session.reader
    weights = session.network.dense_weights()
    del model, session
    gc.collect()
    table, network, reader = parts
    np.testing.assert_array_equal(network.dense_weights(), weights)
    assert table.name() == "vectors"
    assert table.stats()["rows"] == len(table.dump()["keys"])
    assert reader.position()["sample"] == 2 * BATCH


def test_rows_are_erased():
    model = trained(4)
    table = model.session.table(0)
    before = table.dump()["keys"]
    assert table.erase([before[0], before[3], 10**6]) == 2
    np.testing.assert_array_equal(table.dump()["keys"], np.delete(before, [0, 3]))
    assert model.train()
    with pytest.raises(hugectr.InvalidArgument, match="no table 1: the model has 1"):
        model.session.table(1)
