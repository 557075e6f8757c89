# SPDX-License-Identifier: Apache-2.0
"""Arguments of a compiled model's calls that can not be are named, whatever they are."""

import numpy as np
import pytest
from model.nets import Setup, make_model

import hugectr
from hugectr.data import from_arrays


def _data(samples, seed):
    draw = np.random.default_rng(seed)
    return from_arrays(
        draw.integers(0, 2, (samples, 1)),
        draw.normal(size=(samples, 3)),
        {"keys": draw.integers(0, 400, (samples, 4))},
    )


@pytest.fixture(scope="module")
def model():
    setup = Setup("tower", _data(64, 1), _data(32, 2), slots=4, dense_dim=3, optimizer="Adam")
    setup.batch, setup.i64, setup.eval_batches = 32, True, 1
    made = make_model(setup)
    made.train()
    made.eval()
    return made


ONES = np.ones((2, 8), np.float32)
INF = float("inf")
CALLS = {
    "table of an array": ("embedding: table", lambda m: m.embedding(np.zeros(2), [1])),
    "found": ("embedding: found", lambda m: m.embedding("emb", [1], found=np.zeros(2))),
    "rows of no table": ("embedding: found", lambda m: m.set_table_rows(np.zeros(2), [1], ONES)),
    "vectors of a number": ("vectors", lambda m: m.set_table_rows("emb", [1, 2], INF)),
    "no vectors": ("vectors: found None", lambda m: m.set_table_rows("emb", [1, 2], None)),
    "vectors of text": ("vectors: dtype", lambda m: m.set_table_rows("emb", [1], [["a"]])),
    "more vectors": ("of vectors", lambda m: m.set_table_rows("emb", [1], ONES * INF)),
    "masked vectors": (
        r"vectors has 16 missing values \(the first in row 0\)",
        lambda m: m.set_table_rows("emb", [1, 2], np.ma.masked_array(ONES, ONES > 0)),
    ),
    "masked keys": (
        r"keys has 1 missing value \(in row 1\)",
        lambda m: m.set_table_rows("emb", np.ma.masked_array([1, 2], [0, 1]), ONES),
    ),
    "a key": ("shape of keys", lambda m: m.set_table_rows("emb", -1, ONES[:1])),
    "keys of a matrix": ("shape of keys", lambda m: m.set_table_rows("emb", [[1, 2]], ONES)),
    "dense weights": ("values: dtype", lambda m: m.set_dense_weights("")),
    "table to export": ("export_table: table", lambda m: m.export_table(np.zeros(2), "a")),
    "path to export": ("export_table: path", lambda m: m.export_table("emb", "a\0b")),
    "table to evict": ("evict: table", lambda m: m.evict(np.zeros(2), [1])),
    "table to freeze": ("embedding.*: found", lambda m: m.freeze_embedding(np.zeros((2, 2)))),
    "number to freeze": ("embedding: found -1", lambda m: m.freeze_embedding(-1)),
    "no tensor": ("tensor_name: found None", lambda m: m.check_out_tensor(None)),
    "half a tensor": ("tensor_name: found", lambda m: m.check_out_tensor("\ud800")),
    "half a name": ("tensor: name", lambda m: m.tensor("\ud800")),
    "half a weight": ("dense_weight: name", lambda m: m.dense_weight("\ud800")),
    "half an output": ("output: found", lambda m: m.predict(_data(3, 3), output="\ud800")),
    "NUL in a folder": ("save: path", lambda m: m.save("a\0b")),
    "half a folder": ("save: path", lambda m: m.save("\ud800")),
    "no folder": ("resume: path: found None", lambda m: m.resume(None)),
    "no weights": ("load_weights: path: found None", lambda m: m.load_weights(None)),
    "no file": ("load_dense_weights: file: found None", lambda m: m.load_dense_weights(None)),
    "NUL in a graph": ("graph_to_json: file", lambda m: m.graph_to_json("a\0b")),
    "NUL in predictions": ("prediction_file", lambda m: m.export_predictions("a\0", "b")),
    "model to load": ("load: path: found", lambda m: hugectr.load("\ud800")),
    "endless decay": (
        "decay_start: found inf",
        lambda m: m.reset_learning_rate_scheduler(0.1, 1, INF),
    ),
    "no rate": ("base_lr: found nan", lambda m: m.reset_learning_rate_scheduler(float("nan"))),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_wrong_argument_is_named(model, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words, run = CALLS[call]
    with pytest.raises(hugectr.InvalidArgument, match=words):
        run(model)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("prefix", [None, -1, 1.5, {"a": 1}, lambda: 0, b"x", "a\0", "\ud800"])
def test_a_prefix_of_files_is_a_path(model, prefix, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(hugectr.InvalidArgument, match="save_params_to_files: prefix: found"):
        model.save_params_to_files(prefix, 1)
    assert not list(tmp_path.iterdir())


def test_a_prefix_may_be_a_path_object(model, tmp_path):
    model.save_params_to_files(tmp_path / "w", 1)
    assert (tmp_path / "w_dense_1.model").is_file()
    assert (tmp_path / "w0_sparse_1.model" / "key").is_file()


def test_names_may_be_of_subclasses_of_text(model):
    class Word(str):
        pass

    weight = model.dense_weight_names()[0]
    for word in (Word, np.str_):
        assert model.tensor(word("dense")).shape == model.tensor("dense").shape
        values = np.asarray(model.dense_weight(word(weight))).copy()
        model.set_dense_weight(word(weight), values)
        assert len(model.predict(_data(3, 3), output=word("logit"))) == 3
        assert len(model.embedding(word("emb"), [1])) == 1
    model.freeze_embedding({"emb"})
    model.unfreeze_embedding(np.array(["emb"]))
