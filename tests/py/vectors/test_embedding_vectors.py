# SPDX-License-Identifier: Apache-2.0
"""Vectors of keys and their neighbours, against NumPy in float64, on one and several devices."""

from types import SimpleNamespace

import numpy as np
import pytest
from oracle.thread_group import results_of

import hugectr
from hugectr.data import CategoricalField, MemoryDataset, Schema
from hugectr.vectors.vectors import EmbeddingVectors, LoadedTables

SLOTS, D, ROWS = 3, 6, 200


def samples(seed=5, keys=40):
    rng = np.random.default_rng(seed)
    return MemoryDataset(
        label=rng.integers(0, 2, (ROWS, 1)).astype(np.float32),
        dense=rng.random((ROWS, 2), np.float32),
        sparse={"keys": (rng.integers(0, keys, ROWS * SLOTS), np.arange(ROWS * SLOTS + 1))},
    )


def built(embedding="Distributed", devices=1, data=None, steps=6, d=D):
    solver = hugectr.CreateSolver(
        batchsize=40,
        batchsize_eval=40,
        lr=0.05,
        seed=3,
        i64_input_key=True,
        vvgpu=[[*range(devices)]],
        device="cpu",
    )
    data = samples() if data is None else data
    slots = (len(data.sparse["keys"][1]) - 1) // ROWS
    model = hugectr.Model(
        solver,
        hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, data),
        hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local),
    )
    keys = hugectr.DataReaderSparseParam("keys", 1, True, slots)
    layer, t = hugectr.DenseLayer, hugectr.Layer_t
    model.add(hugectr.Input(1, "label", data.dense.shape[1], "dense", [keys]))
    kind = hugectr.Embedding_t[f"{embedding}SlotSparseEmbeddingHash"]
    model.add(hugectr.SparseEmbedding(kind, 1, d, "sum", "table", "keys"))
    model.add(layer(t.Reshape, ["table"], ["flat"], leading_dim=d * slots))
    model.add(layer(t.Concat, ["flat", "dense"], ["features"]))
    model.add(layer(t.InnerProduct, ["features"], ["logit"], num_output=1))
    model.add(layer(t.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    for _ in range(steps):
        model.train()
    return model


def rows_of(model):
    bag = model.session.table(0).dump()
    return bag["keys"], bag["slot_ids"], bag["vectors"]


def expected(keys, slots, vectors, at, k, metric):
    """Keys and scores by NumPy, ties by (slot, key)."""
    a, b = vectors.astype(np.float64), vectors[at].astype(np.float64)
    if metric == "l2":
        scores = np.sqrt(((a - b) ** 2).sum(1))
    else:
        scores = a @ b
        if metric == "cosine":
            scores = scores / (np.linalg.norm(a, axis=1) * np.linalg.norm(b))
    others = np.delete(np.arange(len(keys)), at)
    distance = scores if metric == "l2" else -scores
    order = others[np.lexsort([keys[others], slots[others], distance[others]])][:k]
    return keys[order], slots[order], scores[order]


@pytest.mark.parametrize("embedding", ["Distributed", "Localized"])
@pytest.mark.parametrize("devices", [1, 2])
def test_embedding_gives_the_rows_of_the_table_and_zeros_for_unseen_keys(embedding, devices):
    model = built(embedding, devices)
    keys, slots, vectors = rows_of(model)
    order = np.random.default_rng(0).permutation(len(keys))
    asked = np.append(keys[order], [1 << 40, keys[0]])
    places = None if slots is None else slots[[*order, 0, 0]]
    found_vectors, found = model.embedding("table", asked, slots=places, found=True)
    assert found_vectors.dtype == np.float32
    assert found_vectors.shape == (len(asked), D)
    assert np.array_equal(found_vectors[: len(keys)], vectors[order])
    assert np.array_equal(found_vectors[-1], vectors[0])
    assert found.tolist() == [True] * len(keys) + [False, True]
    assert not found_vectors[-2].any()
    assert np.array_equal(model.embedding("table", asked, slots=places), found_vectors)


@pytest.mark.parametrize("metric", ["cosine", "dot", "l2"])
@pytest.mark.parametrize("embedding", ["Distributed", "Localized"])
def test_nearest_agrees_with_numpy_in_float64(embedding, metric):
    model = built(embedding)
    keys, slots, vectors = rows_of(model)
    places = np.zeros(len(keys), np.uint64) if slots is None else slots
    for at in (0, 7, len(keys) - 1):
        slot = None if slots is None else int(slots[at])
        near = model.nearest("table", int(keys[at]), 9, metric, slot=slot)
        want = expected(keys, places, vectors, at, 9, metric)
        assert np.array_equal(near.keys, want[0])
        if slots is not None:
            assert np.array_equal(near.slots, want[1])
        np.testing.assert_allclose(near.scores, want[2], rtol=1e-12, atol=1e-14)
        assert len(near) == 9
        assert near.names is None


def test_neighbours_are_the_same_on_any_number_of_devices_and_of_a_vector_length_with_a_rest():
    model = built(devices=1, d=13)
    keys, _, vectors = rows_of(model)
    one = model.nearest("table", int(keys[3]), 500, "cosine")
    assert len(one) == len(keys) - 1
    assert keys[3] not in one.keys
    spread = built(devices=2, d=13, steps=1)
    spread.session.table(0).reset()
    spread.set_table_rows("table", keys, vectors)
    two = spread.nearest("table", int(keys[3]), 500, "cosine")
    assert np.array_equal(one.keys, two.keys)
    assert np.array_equal(one.scores, two.scores)


def test_equal_rows_come_in_the_order_of_their_keys_and_zeros_are_like_nothing():
    model = built(steps=1)
    model.session.table(0).reset()
    vectors = np.ones((6, D), np.float32)
    vectors[5] = 0
    model.set_table_rows("table", np.array([50, 40, 30, 20, 10, 60]), vectors)
    near = model.nearest("table", 30, 5)
    assert near.keys.tolist() == [10, 20, 40, 50, 60]
    np.testing.assert_allclose(near.scores, [1, 1, 1, 1, 0], rtol=1e-15)
    assert model.nearest("table", 60, 2).scores.tolist() == [0, 0]


def test_erased_rows_are_gone():
    model = built()
    keys, _, _ = rows_of(model)
    first = model.nearest("table", int(keys[0]), 1).keys
    model.session.table(0).erase(first)
    assert not model.embedding("table", first, found=True)[1][0]
    assert first[0] not in model.nearest("table", int(keys[0]), 100).keys


def test_looking_changes_no_step_that_follows():
    plain, watched = built(steps=3), built(steps=3)
    for _ in range(4):
        plain.train()
        watched.embedding("table", [1, 2, 1 << 41])
        watched.nearest("table", int(rows_of(watched)[0][0]), 3)
        watched.train()
    assert np.array_equal(rows_of(plain)[2], rows_of(watched)[2])
    assert plain.get_current_loss() == watched.get_current_loss()


def frame_model(embedding):
    rng = np.random.default_rng(1)
    frame = {
        "city": rng.choice(["Rome", "Oslo", "Bern", None], ROWS).tolist(),
        "shop": rng.choice(["a", "b"], ROWS).tolist(),
        "clicked": rng.integers(0, 2, ROWS).tolist(),
        "age": rng.random(ROWS).tolist(),
    }
    schema = Schema.infer(
        frame,
        label="clicked",
        fields=[CategoricalField(name, vocabulary=True) for name in ("city", "shop")],
    )
    encoded = schema.encode(frame)
    name = next(iter(encoded.sparse))
    data = MemoryDataset(encoded.label, encoded.dense, {"keys": encoded.sparse[name]})
    return schema, name, built(embedding, data=data)


@pytest.mark.parametrize("embedding", ["Distributed", "Localized"])
def test_with_a_schema_categories_are_asked_for_and_named(embedding):
    schema, name, model = frame_model(embedding)
    model.embeddings[0].bottom_names = [name]  # the schema's name of the input
    model.schema = schema
    vectors, found = model.embedding("table", ["Oslo", "Nowhere"], column="city", found=True)
    assert found.tolist() == [True, False]
    key = schema.key_of("city", "Oslo")
    slots = 0 if embedding == "Localized" else None
    assert np.array_equal(vectors[0], model.embedding("table", [key], slots=slots)[0])
    near = model.nearest("table", "Oslo", 20, column="city")
    named = set(zip(near.columns, near.names, strict=True))
    assert {("city", "Rome"), ("city", "Bern"), ("shop", "a"), ("shop", "b")} <= named
    assert ("city", "Oslo") not in named
    assert (None, None) in named  # what is missing


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.embedding("tabel", [1]), "allowed: one of ['table']"),
        (lambda m: m.embedding("table", [1.5]), "ints of shape"),
        (lambda m: m.embedding("table", ["Oslo"]), "name their column"),
        (lambda m: m.embedding("table", [[1]]), "ints of shape"),
        (lambda m: m.embedding("table", [1], slots=[0]), "leave slots out"),
        (lambda m: m.embedding("table", ["Oslo"], column="city"), "no fitted schema"),
        (lambda m: m.embedding("table", [2**63 - 1]), "reserved"),
        (lambda m: m.nearest("table", 1 << 40), "has no row"),
        (lambda m: m.nearest("table", 1, 0), "nearest: k"),
        (lambda m: m.nearest("table", 1, 1, "euclid"), "nearest: metric"),
    ],
)
def test_what_can_not_be_is_refused(call, message):
    with pytest.raises(hugectr.InvalidArgument, match=message.replace("[", r"\[")):
        call(built(steps=1))


def test_a_table_of_slots_wants_the_slot():
    with pytest.raises(hugectr.InvalidArgument, match="give the slot of each key"):
        built("Localized", steps=1).embedding("table", [1])


@pytest.mark.parametrize("embedding", ["Distributed", "Localized"])
def test_a_loaded_model_says_the_same(tmp_path, embedding):
    model = built(embedding)
    model.save(tmp_path / "saved")
    loaded = hugectr.load(tmp_path / "saved")
    keys, slots, vectors = rows_of(model)
    assert np.array_equal(loaded.embedding("table", keys, slots=slots), vectors)
    slot = None if slots is None else int(slots[2])
    one, other = (m.nearest("table", int(keys[2]), 4, slot=slot) for m in (model, loaded))
    assert np.array_equal(one.keys, other.keys)
    assert np.array_equal(one.scores, other.scores)
    files = [m.export_table("table", tmp_path / "t.parquet").read_bytes() for m in (model, loaded)]
    assert files[0] == files[1]


class PartOfTable:
    """The rows of one process, as the core answers for them."""

    def __init__(self, keys, vectors):
        self.rows = dict(zip(keys, vectors, strict=True))

    def parts(self):
        return {"key": ("int64", ()), "vector": ("float32", (D,))}

    def lookup(self, keys, slots):
        there = np.array([int(key) in self.rows for key in keys])
        found = [self.rows.get(int(key), np.zeros(D, np.float32)) for key in keys]
        return np.array(found, np.float32), there

    def nearest(self, query, k, metric, but):
        keys = np.array([key for key in self.rows if key != but[0]], np.int64)
        vectors = np.array([self.rows[int(key)] for key in keys])
        scores = np.abs(vectors.astype(np.float64) - query).sum(1)  # any will do
        scores = scores if metric == "l2" else -scores
        order = np.lexsort([keys, scores if metric == "l2" else -scores])[:k]
        return keys[order], None, scores[order]


@pytest.mark.parametrize("metric", ["l2", "dot"])
def test_rows_of_all_processes_are_looked_at(metric):
    rng = np.random.default_rng(2)
    vectors = rng.normal(size=(30, D)).astype(np.float32)
    whole = PartOfTable(range(30), vectors)
    description = SimpleNamespace(sparse_embedding_name="table", bottom_names=["keys"])

    def of(group, part):
        session = SimpleNamespace(table=lambda index: part)
        return EmbeddingVectors(LoadedTables(session, [description], None), group)

    parts = [PartOfTable(range(r, 30, 3), vectors[r::3]) for r in range(3)]
    found = results_of(3, lambda group: of(group, parts[group.rank]).embedding("table", [4, 99, 8]))
    near = results_of(3, lambda group: of(group, parts[group.rank]).nearest("table", 4, 7, metric))
    alone = of(None, whole)
    for one in found:
        assert np.array_equal(one, alone.embedding("table", [4, 99, 8]))
    for one in near:
        assert np.array_equal(one.keys, alone.nearest("table", 4, 7, metric).keys)
        assert np.array_equal(one.scores, alone.nearest("table", 4, 7, metric).scores)
