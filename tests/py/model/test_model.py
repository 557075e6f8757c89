# SPDX-License-Identifier: Apache-2.0
"""Model beyond fit: freezing, files, learning rate, tensors, data in memory."""

import json

import numpy as np
import pytest

import hugectr
from hugectr.base.no_effect import forget_warnings
from hugectr.checkpoints.original_files import CheckpointFiles
from hugectr.data import from_arrays


def trained(make_model, steps=6, **settings):
    model = make_model(**settings)
    model.compile()
    for _ in range(steps):
        model.train()
    return model


def table(model):
    bag = model.session.table(0).dump()
    return bag["keys"], bag["slot_ids"], bag["vectors"]


def test_save_and_load(make_model, tmp_path):
    model = trained(make_model, batch_norm=True)
    auc = model.evaluate()["AUC"]
    model.save_params_to_files(str(tmp_path / "m"), 6)
    files = CheckpointFiles(str(tmp_path / "m"), 6)
    statistics = json.loads((tmp_path / "m_dense_6.model.ntp.json").read_text())
    assert [layer["type"] for layer in statistics["layers"]] == ["BatchNorm"]
    assert len(statistics["layers"][0]["mean"]) == 16

    other = make_model(batch_norm=True, seed=99, vvgpu=[[0]])
    other.compile()
    assert other.evaluate()["AUC"] != auc
    other.load_dense_weights(files.dense)
    other.load_sparse_weights([files.sparse(0)])
    other.load_dense_optimizer_states(files.dense_optimizer)
    other.load_sparse_optimizer_states({"vectors": files.sparse_optimizer(0)})
    assert other.evaluate()["AUC"] == pytest.approx(auc, abs=1e-6)
    np.testing.assert_array_equal(
        model.session.network.dense_weights(), other.session.network.dense_weights()
    )
    for ours, theirs in zip(table(model), table(other), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    again = make_model(batch_norm=True)
    again.compile()
    again.load_sparse_weights({"vectors": files.sparse(0)})
    np.testing.assert_array_equal(table(again)[2], table(model)[2])


def test_damaged_checkpoints_are_named(make_model, tmp_path):
    model = trained(make_model, batch_norm=True)
    model.save_params_to_files(str(tmp_path / "m"), 0)
    dense = tmp_path / "m_dense_0.model"
    with pytest.raises(hugectr.InvalidArgument, match=r"found 2 paths.*\['vectors'\]"):
        model.load_sparse_weights(["a", "b"])
    with pytest.raises(hugectr.InvalidArgument, match="did you mean 'vectors'"):
        model.load_sparse_weights({"vector": "x"})
    with pytest.raises(hugectr.InvalidArgument, match=r"'vectors'.*existing folder or file"):
        model.load_sparse_weights([str(tmp_path / "none")])
    with pytest.raises(hugectr.InvalidArgument, match=r"missing.*emb_vector"):
        model.load_sparse_weights([str(tmp_path)])
    statistics = tmp_path / "m_dense_0.model.ntp.json"
    statistics.write_text('{"layers": [{"mean": [1], "var": [1]}]}')
    with pytest.raises(hugectr.DataError, match=r"mean of layer 'norm1' has 1 values.* 16"):
        model.load_dense_weights(dense)
    statistics.write_text("{")
    with pytest.raises(hugectr.DataError, match=r"ntp\.json"):
        model.load_dense_weights(dense)
    dense.write_bytes(dense.read_bytes()[:-4])
    with pytest.raises(hugectr.DataError, match="m_dense_0"):
        model.load_dense_weights(dense)


def test_statistics_left_behind_are_reported(make_model, tmp_path, capsys):
    model = trained(make_model, batch_norm=True)
    model.save_params_to_files(str(tmp_path / "m"), 0)
    (tmp_path / "m_dense_0.model.ntp.json").unlink()
    model.load_dense_weights(tmp_path / "m_dense_0.model")
    assert "ntp.json is not there" in capsys.readouterr().err


def test_freezing(make_model):
    model = trained(make_model)
    model.freeze_embedding(["vectors"])
    dense, rows = model.session.network.dense_weights(), table(model)[2]
    assert model.trainable() == (False, True)
    model.train()
    np.testing.assert_array_equal(table(model)[2], rows)
    assert np.any(model.session.network.dense_weights() != dense)
    model.unfreeze_embedding(embedding_name=["vectors"])
    model.freeze_dense()
    dense = model.session.network.dense_weights()
    model.train()
    assert np.any(table(model)[2] != rows)
    np.testing.assert_array_equal(model.session.network.dense_weights(), dense)
    model.unfreeze_dense()
    model.train()
    assert np.any(model.session.network.dense_weights() != dense)
    with pytest.raises(hugectr.InvalidArgument, match="vectors"):
        model.freeze_embedding(["vectors", "x"])


def test_freezing_before_compile(make_model):
    model = make_model()
    model.freeze_dense()
    model.compile()
    before = model.session.network.dense_weights()
    model.train()
    np.testing.assert_array_equal(model.session.network.dense_weights(), before)


def test_learning_rate(make_model):
    model = make_model(lr=0.1, warmup_steps=2)
    model.compile()
    schedule = model.get_learning_rate_scheduler()
    assert [schedule.get_next() for _ in range(3)] == pytest.approx([0.05, 0.1, 0.1])
    model.reset_learning_rate_scheduler(1.0, warmup_steps=4)
    assert schedule.get_next() == pytest.approx(0.25)
    model.set_learning_rate(0.0)
    before = model.session.network.dense_weights()
    model.train()
    np.testing.assert_array_equal(model.session.network.dense_weights(), before)
    with pytest.raises(hugectr.InvalidArgument, match="lr"):
        model.set_learning_rate(-1)


def test_check_out_tensor(make_model):
    model = trained(make_model)
    logit = model.check_out_tensor("logit", hugectr.Tensor_t.Train)
    deep = model.check_out_tensor("deep", hugectr.Tensor_t.Train)
    wide = model.check_out_tensor("wide", hugectr.Tensor_t.Train)
    assert logit.shape == (64, 1)
    np.testing.assert_allclose(logit, deep + wide, rtol=1e-5, atol=1e-6)
    model.eval()
    assert model.check_out_tensor("vectors", hugectr.Tensor_t.Evaluate).shape == (64, 4, 8)
    with pytest.raises(hugectr.InvalidArgument, match="Tensor_t"):
        model.check_out_tensor("logit", "Train")


def test_tensors_that_are_never_stored_are_computed_again(make_model, monkeypatch):
    """Those of the evaluation network are what a schedule that stores all has."""
    found = []
    for fuse in ("1", "0"):
        monkeypatch.setenv("HUGECTR_FUSE", fuse)
        model = trained(make_model)
        model.eval()
        found.append(model.check_out_tensor("fc1", hugectr.Tensor_t.Evaluate))
        relu = model.check_out_tensor("relu1", hugectr.Tensor_t.Evaluate)
        np.testing.assert_allclose(np.maximum(found[-1], 0), relu, atol=1e-6)
        model.set_learning_rate(0.0)
        model.train()
        fc1, relu = (
            model.check_out_tensor(name, hugectr.Tensor_t.Train) for name in ("fc1", "relu1")
        )
        np.testing.assert_allclose(np.maximum(fc1, 0), relu, atol=1e-6)
        assert np.any(fc1 < 0)
        if fuse == "1":
            with pytest.raises(hugectr.InvalidArgument, match="fused away"):
                model.session.network.check_out_tensor("fc1", True)
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-6)
    with pytest.raises(hugectr.InvalidArgument, match="there is no tensor 'fc9'"):
        model.check_out_tensor("fc9")


def test_epochs_and_set_source(make_model, data_folder):
    model = make_model(repeat_dataset=False)
    model.compile()
    train, evaluation = str(data_folder / "train.txt"), str(data_folder / "eval.txt")
    for source in (train, [evaluation]):
        model.set_source(source, evaluation)
        steps = 0
        while model.train():
            steps += 1
        assert steps == (4 if source == train else 2)
    evaluated = 0
    while model.eval():
        evaluated += 1
    assert evaluated == 2
    assert model.eval()  # it has started over


def in_memory(samples, rng):
    keys = rng.integers(0, 40, (samples, 2)) + np.array([0, 40])
    weights = np.linspace(-2, 2, 80)
    label = (weights[keys].sum(1) > 0).astype(np.float32)
    return keys, label


def test_data_in_memory_trains():
    keys, label = in_memory(512, np.random.default_rng())
    csr = (keys.ravel(), np.arange(keys.size + 1))
    one_hot = from_arrays(label, None, {"keys": keys})
    rows = from_arrays(label[:, None], np.zeros((512, 0)), {"keys": csr})
    np.testing.assert_array_equal(one_hot.sparse["keys"][0], rows.sparse["keys"][0])
    model = hugectr.Model(
        hugectr.CreateSolver(
            batchsize=64, batchsize_eval=64, max_eval_batches=8, lr=0.05, device="cpu"
        ),
        hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, one_hot, eval_source=rows),
        hugectr.CreateOptimizer(update_type=hugectr.Update_t.Local),
    )
    model.add(
        hugectr.Input(1, "label", 0, "dense", [hugectr.DataReaderSparseParam("keys", 1, True, 2)])
    )
    model.add(
        hugectr.SparseEmbedding(
            hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash, 1, 1, "sum", "v", "keys"
        )
    )
    model.add(hugectr.DenseLayer(hugectr.Layer_t.Reshape, ["v"], ["flat"], leading_dim=2))
    model.add(hugectr.DenseLayer(hugectr.Layer_t.InnerProduct, ["flat"], ["x"], num_output=1))
    model.add(hugectr.DenseLayer(hugectr.Layer_t.BinaryCrossEntropyLoss, ["x", "label"], ["loss"]))
    model.compile()
    for _ in range(300):
        model.train()
    assert model.evaluate()["AUC"] > 0.98
    with pytest.raises(hugectr.InvalidArgument, match="in memory"):
        model.set_source("list.txt")


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        (([1.0, 0.0], [[1.0]], {}), "rows of dense"),
        (([1.0], None, {"k": [[1.5]]}), "dtype of keys"),
        (([1.0], None, {"k": [[1], [2]]}), "(1, slots)"),
        (([1.0], None, {"k": (np.array([1, 2]), np.array([0, 1]))}), "last row offset"),
        (([1.0], None, {"k": (np.array([1]), np.array([1, 0]))}), "ascending"),
        (([], None, {}), "at least one sample"),
    ],
)
def test_arrays_that_do_not_fit(arrays, words):
    with pytest.raises(hugectr.InvalidArgument) as caught:
        from_arrays(*arrays)
    assert words in str(caught.value)


def test_in_memory_data_must_fit_the_input(make_model):
    inputs = make_model().input
    data = from_arrays([1.0], [[1.0, 2.0]], {"keys": [[1, 2, 3, 4]]})
    reader = hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, data)
    with pytest.raises(hugectr.InvalidArgument, match="dense columns: found 2, allowed: 3"):
        reader.to_spec(inputs)
    data = from_arrays([1.0], [[1.0, 2.0, 3.0]], {"keyz": [[1, 2, 3, 4]]})
    reader = hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, data)
    with pytest.raises(hugectr.InvalidArgument, match="keyz"):
        reader.to_spec(inputs)


def test_one_hot_tables_are_by_slot_and_find_rows_directly():
    table = hugectr.SparseEmbedding(
        hugectr.Embedding_t.LocalizedSlotSparseEmbeddingOneHot,
        embedding_vec_size=4,
        sparse_embedding_name="e",
        bottom_name="k",
        slot_size_array=[5, 6],
    )
    assert table.to_spec()["type"] == "LocalizedSlotSparseEmbeddingHash"
    assert table.to_spec()["direct"]


def test_a_model_is_shown_before_it_is_compiled(make_model):
    model = make_model()
    before = model.layer_summary()
    model.compile()
    after = model.layer_summary()
    assert before == after
    assert ("Slice", ["both"]) in [(kind, bottoms) for kind, bottoms, _, _ in after]


@pytest.mark.parametrize("devices", [[0], [0, 1]])
def test_exported_predictions_are_those_of_the_batch(make_model, tmp_path, devices):
    model = make_model(repeat_dataset=False, vvgpu=[devices], batchsize_eval=96)
    model.compile()
    files = tmp_path / "a" / "predictions", tmp_path / "a" / "labels"
    with pytest.raises(hugectr.InvalidArgument, match="no batch was evaluated"):
        model.export_predictions(*files)
    logits, labels = [], []
    for samples in (96, 32):  # 128 in all
        assert model.eval()
        model.export_predictions(*files)
        for name, found in (("logit", logits), ("label", labels)):
            found += (
                model.check_out_tensor(name, hugectr.Tensor_t.Evaluate).ravel()[:samples].tolist()
            )
    assert not model.eval()
    model.export_predictions(*files)  # the last batch once more
    logits += logits[-32:]
    labels += labels[-32:]
    predictions = 1 / (1 + np.exp(-np.array(logits)))
    np.testing.assert_allclose(np.loadtxt(files[0]), predictions, rtol=1e-6)
    np.testing.assert_array_equal(np.loadtxt(files[1]), labels)


def test_the_evaluation_reader_knows_its_end(make_model):
    model = make_model(repeat_dataset=False)
    model.compile()
    reader = model.get_data_reader_eval()
    for start_over in (lambda: None, reader.set_source, lambda: None):
        batches = 0
        while not reader.is_eof() or batches == 0:  # as v3.0 scripts have it
            batches += model.eval()
        assert batches == 2
        assert reader.is_eof()
        start_over()
    reader.set_source()
    assert not reader.is_eof()
    assert model.eval()


def test_arguments_of_old_loops(make_model, capsys):
    forget_warnings()
    model = make_model()
    model.compile()
    for first in (True, False, False):
        assert model.train(first)
    assert model.train(is_first_batch=False)
    assert all(model.eval(i) for i in range(2))
    assert model.eval(is_first_batch=False)
    lines = [line for line in capsys.readouterr().err.splitlines() if "has no effect" in line]
    assert len(lines) == 3
    with pytest.raises(hugectr.InvalidArgument, match="is_first_batch"):
        model.train("yes")
