# SPDX-License-Identifier: Apache-2.0
"""Inference sessions against predictions of the model that was trained."""

import numpy as np
import pytest
from oracle.small_data import generate
from oracle.small_net import DENSE, SIZES, build

import hugectr
from hugectr.inference import CreateInferenceSession, InferenceParams
from hugectr.inference.vectors import csr_of_request
from hugectr.spec.enums import Check_t, DataReaderType_t


def params_of(folder, **changes):
    settings = {
        "model_name": "m",
        "max_batchsize": 50,
        "hit_rate_threshold": 0.9,
        "dense_model_file": f"{folder}/m_dense_0.model",
        "sparse_model_files": [f"{folder}/m0_sparse_0.model"],
        "device_id": 0,
        "use_gpu_embedding_cache": False,
        "cache_size_percentage": 0.5,
        "i64_input_key": True,
    }
    return InferenceParams(**(settings | changes))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A trained model, its folder with graph and files, and its data in every format."""
    folder = tmp_path_factory.mktemp("inference")
    paths = {
        kind: generate(folder, kind, eval_num_samples=1400)[1]
        for kind in ("Norm", "Raw", "Parquet")
    }
    model = build(DataReaderType_t.Norm, generate(folder, "Norm")[0], check_type=Check_t.Sum)
    for _ in range(20):
        model.train()
    model.graph_to_json(folder / "m.json")
    model.save_params_to_files(f"{folder}/m")
    return model, folder, paths


@pytest.fixture(scope="module")
def session(trained):
    folder = trained[1]
    return CreateInferenceSession(f"{folder}/m.json", params_of(folder))


def test_lists_are_predicted_as_the_model_predicts_them(trained, session):
    rng = np.random.default_rng()
    n = 7
    offsets = np.arange(n * len(SIZES) + 1)
    keys = rng.integers(0, sum(SIZES), offsets[-1])
    dense = rng.random((n, DENSE), np.float32)
    wanted = trained[0].predict(
        hugectr.data.from_arrays(np.zeros(n), dense, {"keys": (keys, offsets)})
    )
    found = session.predict(
        dense.reshape(-1).tolist(), keys.tolist(), offsets.tolist(), i64_input_key=True
    )
    np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize("kind", ["Norm", "Raw", "Parquet"])
def test_the_formats_are_predicted_alike(trained, session, kind):
    paths = trained[2]
    path = paths[kind]
    sizes = [] if kind == "Norm" else SIZES
    arguments = (4, path, DataReaderType_t[kind], Check_t.Sum, sizes)
    if kind == "Raw":  # generated with float32 labels and dense features, as the graph says
        session._graph.reader = hugectr.DataReaderParams(
            DataReaderType_t.Raw, path, float_label_dense=True
        )
    found = session.predict(*arguments)
    assert found.shape == (200,)
    norm = session.predict(4, paths["Norm"], DataReaderType_t.Norm, Check_t.Sum)
    np.testing.assert_array_equal(found, norm)
    assert 0.5 < session.evaluate(*arguments) < 1.0


def test_a_slot_may_hold_any_number_of_keys():
    inputs = hugectr.Input(
        1,
        "label",
        0,
        "dense",
        [
            hugectr.DataReaderSparseParam("a", 2, False, 2),
            hugectr.DataReaderSparseParam("b", 3, False, 1),
        ],
    )
    hashed = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
    # Tables may come in another order than the inputs.
    tables = [hugectr.SparseEmbedding(hashed, 1, 4, "sum", "t" + x, x) for x in ("b", "a")]
    found = csr_of_request(inputs, tables, [], [1, 2, 3, 7, 8, 9], [0, 3, 3, 0, 2, 2, 3, 3])
    count, dense, [(a, of_a), (b, of_b)] = found
    assert (count, dense.shape) == (2, (2, 0))
    assert (b.tolist(), of_b.tolist()) == ([1, 2, 3], [0, 3, 3])
    assert (a.tolist(), of_a.tolist()) == ([7, 8, 9], [0, 2, 2, 3, 3])


def test_refreshing_reads_the_files_again(trained):
    _, folder, paths = trained
    arguments = (1, paths["Norm"], DataReaderType_t.Norm, Check_t.Sum)
    session = CreateInferenceSession(f"{folder}/m.json", params_of(folder))
    before = session.predict(*arguments)
    session.refresh_embedding_cache()
    np.testing.assert_array_equal(session.predict(*arguments), before)
    vectors = folder / "m0_sparse_0.model" / "emb_vector"
    bytes_before = vectors.read_bytes()
    try:
        np.zeros(len(bytes_before) // 4, np.float32).tofile(vectors)
        session.refresh_embedding_cache()
        assert not np.array_equal(session.predict(*arguments), before)
    finally:
        vectors.write_bytes(bytes_before)


@pytest.mark.parametrize(
    ("dense", "keys", "rows", "word"),
    [
        ([0.0] * DENSE, [1] * 5, list(range(5)), "row_ptrs"),
        ([0.0] * 2, [1] * 5, list(range(6)), "dense_feature"),
        ([0.0] * DENSE, [1] * 6, list(range(6)), "embeddingcolumns"),
        ([0.0] * DENSE, [1] * 5, [0, 1, 0, 3, 4, 5], "row_ptrs"),
        ([0.0] * DENSE, [1] * 4, list(range(6)), "row_ptrs"),
        ([0.0] * DENSE, [1] * 5, [0, 1, 2, 3, 4, 5.5], "row_ptrs: found 'float64"),
        ([0.0] * DENSE, [1] * 5, ["0", 1, 2, 3, 4, 5], "row_ptrs"),
        ([0.0] * DENSE, [[1], [1, 1]], list(range(6)), "embeddingcolumns"),
        (["a"] * DENSE, [1] * 5, list(range(6)), "dense_feature"),
        ([None] * DENSE, [1] * 5, list(range(6)), "dense_feature"),
    ],
)
def test_lists_that_do_not_fit_are_named(session, dense, keys, rows, word):
    with pytest.raises(hugectr.InvalidArgument, match=word):
        session.predict(dense, keys, rows)


def test_a_model_without_tables_takes_lists(tmp_path):
    dense = np.random.default_rng(1).random((6, 2), np.float32)
    data = hugectr.data.from_arrays([0, 1] * 3, dense, {})
    model = hugectr.Model(
        hugectr.CreateSolver(batchsize=6, batchsize_eval=6, seed=1, device="cpu"),
        hugectr.DataReaderParams(DataReaderType_t.Norm, data, eval_source=data),
        hugectr.CreateOptimizer(),
    )
    model.add(hugectr.Input(1, "label", 2, "dense", []))
    layer, kinds = hugectr.DenseLayer, hugectr.Layer_t
    model.add(layer(kinds.InnerProduct, ["dense"], ["logit"], num_output=1))
    model.add(layer(kinds.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    model.graph_to_json(tmp_path / "m.json")
    model.save_params_to_files(f"{tmp_path}/m")
    params = params_of(tmp_path, sparse_model_files=[], max_batchsize=4)
    session = CreateInferenceSession(tmp_path / "m.json", params)
    found = session.predict(dense.reshape(-1).tolist(), [], [])
    np.testing.assert_allclose(found, model.predict(data), atol=1e-6)
    with pytest.raises(hugectr.InvalidArgument, match="2 for each of 2 samples"):
        session.predict([0.0] * 5, [], [])


def test_the_number_of_batches_may_be_of_numpy(trained, session):
    path = trained[2]["Norm"]
    found = session.predict(np.int64(1), path, DataReaderType_t.Norm, Check_t.Sum)
    wanted = session.predict(1, path, DataReaderType_t.Norm, Check_t.Sum)
    np.testing.assert_array_equal(found, wanted)


def test_what_can_not_be_is_refused(trained):
    folder = trained[1]
    with pytest.raises(hugectr.InvalidArgument, match="a file for each of the 1 tables"):
        CreateInferenceSession(f"{folder}/m.json", params_of(folder, sparse_model_files=[]))
    with pytest.raises(hugectr.InvalidArgument, match="InferenceParams"):
        CreateInferenceSession(f"{folder}/m.json", {})
