# SPDX-License-Identifier: Apache-2.0
"""Keys that training never saw have the default vector of their table, in NumPy as in a session."""

import numpy as np
import pytest

import hugectr
from hugectr.inference import CreateInferenceSession, InferenceParams

SLOTS, D, DENSE = {"a": 2, "b": 3}, 4, 2
#: Table -> input, combiner, whether slots tell rows apart.
TABLES = {"sum": ("a", "sum", False), "mean": ("a", "mean", False), "slots": ("b", "sum", True)}


def samples(rng, n, keys):
    """One to three keys a slot of every input."""
    found = {}
    for name, slots in SLOTS.items():
        counts = rng.integers(1, 4, n * slots)
        found[name] = rng.choice(keys, counts.sum()), np.concatenate([[0], np.cumsum(counts)])
    label = rng.integers(0, 2, n)
    return hugectr.data.from_arrays(label, rng.random((n, DENSE), np.float32), found)


def build(data):
    model = hugectr.Model(
        hugectr.CreateSolver(batchsize=32, batchsize_eval=32, seed=1, device="cpu", lr=0.1),
        hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, data, eval_source=data),
        hugectr.CreateOptimizer(),
    )
    layer, kinds = hugectr.DenseLayer, hugectr.Layer_t
    params = [hugectr.DataReaderSparseParam(name, 3, False, n) for name, n in SLOTS.items()]
    model.add(hugectr.Input(1, "label", DENSE, "dense", params))
    for name, (bottom, combiner, by_slot) in TABLES.items():
        word = "Localized" if by_slot else "Distributed"
        kind = hugectr.Embedding_t[f"{word}SlotSparseEmbeddingHash"]
        model.add(hugectr.SparseEmbedding(kind, 1, D, combiner, name, bottom))
        model.add(layer(kinds.Reshape, [name], [f"{name}_flat"], leading_dim=D * SLOTS[bottom]))
    model.add(layer(kinds.Concat, [*(f"{name}_flat" for name in TABLES), "dense"], ["all"]))
    model.add(layer(kinds.InnerProduct, ["all"], ["logit"], num_output=1))
    model.add(layer(kinds.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("defaults")
    model = build(samples(np.random.default_rng(1), 64, np.arange(20)))
    for _ in range(4):
        model.train()
    model.graph_to_json(place / "m.json")
    model.save_params_to_files(f"{place}/m")
    # One table has keys that the other one of its input lacks.
    for part, width in (("key", 1), ("emb_vector", D)):
        file = place / "m1_sparse_0.model" / part
        kind = np.int64 if part == "key" else np.float32
        np.fromfile(file, kind)[: -2 * width].tofile(file)
    return place


def session_of(folder, values):
    settings = InferenceParams(
        "m",
        50,
        0.9,
        f"{folder}/m_dense_0.model",
        [f"{folder}/m{i}_sparse_0.model" for i in range(len(TABLES))],
        0,
        True,
        0.5,
        False,
        default_value_for_each_table=values,
    )
    return CreateInferenceSession(folder / "m.json", settings)


def predicted(folder, data, values):
    """The probabilities, in float64, from the files."""
    columns = []
    for i, (bottom, combiner, by_slot) in enumerate(TABLES.values()):
        table = folder / f"m{i}_sparse_0.model"
        keys = np.fromfile(table / "key", np.int64)
        slots = np.fromfile(table / "slot_id", np.uint64) if by_slot else np.zeros(len(keys))
        vectors = np.fromfile(table / "emb_vector", np.float32).reshape(-1, D).astype(np.float64)
        rows = {(int(s), int(k)): v for s, k, v in zip(slots, keys, vectors, strict=True)}
        asked, offsets = data.sparse[bottom]
        combined = np.zeros((len(offsets) - 1, D))
        for bucket in range(len(combined)):
            slot = bucket % SLOTS[bottom] if by_slot else 0
            of_bucket = [
                rows.get((slot, int(key)), np.full(D, values[i]))
                for key in asked[int(offsets[bucket]) : int(offsets[bucket + 1])]
            ]
            combined[bucket] = np.sum(of_bucket, 0) / (len(of_bucket) if combiner == "mean" else 1)
        columns.append(combined.reshape(-1, D * SLOTS[bottom]))
    weights = np.fromfile(folder / "m_dense_0.model", np.float32).astype(np.float64)
    logit = np.concatenate([*columns, data.dense], 1) @ weights[:-1] + weights[-1]
    return 1 / (1 + np.exp(-logit))


@pytest.mark.parametrize("values", [[0.0, 0.0, 0.0], [0.5, -2.0, 1.0], [0.5, 0.0, 0.0], [3.0]])
def test_predictions_are_those_of_the_files(folder, rng, values):
    data = samples(rng, 40, np.concatenate([np.arange(26), [2**31, 2**32 - 2]]))
    session = session_of(folder, values)
    wanted = predicted(folder, data, values * (3 if len(values) == 1 else 1))
    each = [data.sparse[bottom] for bottom, *_ in TABLES.values()]
    request = (
        data.dense.reshape(-1).tolist(),
        np.concatenate([keys for keys, _ in each]).tolist(),
        np.concatenate([offsets for _, offsets in each]).tolist(),
    )
    for _ in range(2):
        np.testing.assert_allclose(session.predict(*request), wanted, atol=1e-6)
        session.refresh_embedding_cache()


def test_what_fits_no_table_is_refused(folder):
    with pytest.raises(hugectr.InvalidArgument, match=r"each_table: found .* one for each of 3"):
        session_of(folder, [0.5, 0.5])
    with pytest.raises(hugectr.InvalidArgument, match=r"each_table\[1\]"):
        session_of(folder, [0.5, "x", 0.0])
