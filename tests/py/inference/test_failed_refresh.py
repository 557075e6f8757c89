# SPDX-License-Identifier: Apache-2.0
"""A refresh that fails leaves no table empty, and none of other files beside the rest in use."""

import numpy as np
import pytest

import hugectr
from hugectr.inference import CreateInferenceSession, InferenceParams

N, DIM, DENSE = 32, 4, 2


@pytest.fixture
def trained(tmp_path):
    """A model of two tables, its data, and a function that makes a session of its files."""
    rng = np.random.default_rng(1)
    keys = {name: rng.integers(0, 9, (N, 1)) for name in ("a", "b")}
    dense = rng.random((N, DENSE), np.float32)
    data = hugectr.data.from_arrays(keys["a"][:, 0] % 2, dense, keys)
    model = hugectr.Model(
        hugectr.CreateSolver(batchsize=N, batchsize_eval=N, seed=1, device="cpu", lr=0.1),
        hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, data, eval_source=data),
        hugectr.CreateOptimizer(),
    )
    layer, kinds = hugectr.DenseLayer, hugectr.Layer_t
    inputs = [hugectr.DataReaderSparseParam(name, 1, True, 1) for name in keys]
    model.add(hugectr.Input(1, "label", DENSE, "dense", inputs))
    kind = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
    for name in keys:
        model.add(hugectr.SparseEmbedding(kind, 1, DIM, "sum", f"{name}_table", name))
        model.add(layer(kinds.Reshape, [f"{name}_table"], [f"{name}_flat"], leading_dim=DIM))
    model.add(layer(kinds.Concat, ["a_flat", "b_flat", "dense"], ["all"]))
    model.add(layer(kinds.InnerProduct, ["all"], ["logit"], num_output=1))
    model.add(layer(kinds.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    model.train()
    model.graph_to_json(tmp_path / "m.json")
    model.save_params_to_files(f"{tmp_path}/m")
    rows = [*range(N + 1)] * 2
    columns = np.concatenate([keys["a"], keys["b"] + 5]).reshape(-1)  # some of b were never seen

    def session(default):
        dense_file, tables = (
            f"{tmp_path}/m_dense_0.model",
            [f"{tmp_path}/m{i}_sparse_0.model" for i in range(2)],
        )
        params = InferenceParams(
            "m", N, 1.0, dense_file, tables, 0, False, 1.0, False,
            default_value_for_each_table=[default],
        )  # fmt: skip
        made = CreateInferenceSession(tmp_path / "m.json", params)
        return made, lambda: made.predict(dense.reshape(-1), columns, rows)

    return model, tmp_path, session


@pytest.mark.parametrize("default", [0.0, 0.5])
def test_nothing_changes_when_the_first_table_can_not_be_read(trained, default):
    _, folder, make = trained
    session, predict = make(default)
    before = predict()
    vectors = folder / "m0_sparse_0.model" / "emb_vector"
    whole = vectors.read_bytes()
    vectors.write_bytes(whole[:-1])
    with pytest.raises(hugectr.DataError, match="emb_vector"):
        session.refresh_embedding_cache()
    np.testing.assert_array_equal(predict(), before)


@pytest.mark.parametrize("default", [0.0, 0.5])
def test_tables_of_unlike_files_predict_nothing(trained, default):
    model, folder, make = trained
    session, predict = make(default)
    dense = (folder / "m_dense_0.model").read_bytes()
    model.train()
    model.save_params_to_files(f"{folder}/m")
    (folder / "m_dense_0.model").write_bytes(dense)  # a refresh reads tables alone
    (folder / "m1_sparse_0.model" / "key").rename(folder / "key")
    with pytest.raises(hugectr.InvalidArgument, match=r"missing.*key"):
        session.refresh_embedding_cache()
    with pytest.raises(hugectr.DataError, match="tables are of unlike files"):
        predict()
    (folder / "key").rename(folder / "m1_sparse_0.model" / "key")
    session.refresh_embedding_cache()
    _, predict_anew = make(default)
    np.testing.assert_array_equal(predict(), predict_anew())
