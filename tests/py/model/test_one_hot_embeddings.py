# SPDX-License-Identifier: Apache-2.0
"""HybridSparseEmbedding and LocalizedSlotSparseEmbeddingOneHot: the models of their hash tables."""

from __future__ import annotations

import json

import numpy as np
import pytest
from model.nets import losses, read_table

import hugectr
from hugectr.data import from_arrays

SIZES, DENSE, BATCH, BATCHES = [40, 7, 25], 2, 24, 4
OFFSETS = np.concatenate([[0], np.cumsum(SIZES)[:-1]])
LAYER = hugectr.Layer_t
HYBRID, ONE_HOT = "HybridSparseEmbedding", "LocalizedSlotSparseEmbeddingOneHot"
HASH = {
    HYBRID: "DistributedSlotSparseEmbeddingHash",
    ONE_HOT: "LocalizedSlotSparseEmbeddingHash",
}


def one_hot_data(rng):
    n = BATCH * BATCHES
    keys = rng.integers(0, SIZES, (n, len(SIZES))) + OFFSETS
    return from_arrays(
        rng.integers(0, 2, (n, 1)).astype(np.float32),
        rng.standard_normal((n, DENSE)).astype(np.float32),
        {"keys": (keys.ravel().astype(np.int64), np.arange(keys.size + 1, dtype=np.uint64))},
    )


@pytest.fixture
def data(rng):
    return one_hot_data(rng)


def start(data, devices, nnz=1, fixed=True, device="cpu", memory=None):
    solver = hugectr.CreateSolver(
        batchsize=BATCH,
        batchsize_eval=BATCH,
        lr=0.1,
        seed=5,
        vvgpu=[list(range(devices))],
        device=device,
        i64_input_key=True,
        memory=memory,
    )
    reader = hugectr.DataReaderParams(hugectr.DataReaderType_t.RawAsync, data, eval_source=data)
    model = hugectr.Model(solver, reader, hugectr.CreateOptimizer(hugectr.Optimizer_t.SGD))
    sparse = hugectr.DataReaderSparseParam("keys", nnz, fixed, len(SIZES))
    model.add(hugectr.Input(1, "label", DENSE, "dense", [sparse]))
    return model


def table(kind, **more):
    settings = {
        "workspace_size_per_gpu_in_mb": 1,
        "embedding_vec_size": 4,
        "combiner": "sum",
        "sparse_embedding_name": "emb",
        "bottom_name": "keys",
        "slot_size_array": SIZES,
    } | more
    return hugectr.SparseEmbedding(hugectr.Embedding_t[kind], **settings)


def make(data, kind, devices=1, nnz=1, device="cpu", **more):
    model = start(data, devices, nnz, nnz == 1, device)
    model.add(table(kind, **more))
    model.add(hugectr.DenseLayer(LAYER.Reshape, ["emb"], ["flat"], leading_dim=12))
    model.add(hugectr.DenseLayer(LAYER.Concat, ["flat", "dense"], ["x"]))
    model.add(hugectr.DenseLayer(LAYER.InnerProduct, ["x"], ["logit"], num_output=1))
    model.add(hugectr.DenseLayer(LAYER.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    return model


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("kind", [HYBRID, ONE_HOT])
def test_they_train_as_their_hash_table_does(data, kind, devices):
    """To the bit: what differs in v3 is where rows lie. A hybrid's first rows have a range of
    their own."""
    more = {}
    if kind == HYBRID:
        more["initializer"] = hugectr.Uniform(np.sqrt(1 / sum(SIZES)))
    assert losses(make(data, kind, devices), 6).tolist() == (
        losses(make(data, HASH[kind], devices, **more), 6).tolist()
    )


def test_first_rows_are_as_large_as_v3_makes_them(data):
    for kind in (HYBRID, ONE_HOT):
        model = make(data, kind)
        model.set_learning_rate(0.0)
        losses(model, BATCHES)
        bag = model.session.table(0).dump(False)
        slots = np.searchsorted(OFFSETS, bag["keys"], "right") - 1
        size = np.array(SIZES)[slots] if kind == ONE_HOT else np.full(len(slots), sum(SIZES))
        share = np.abs(bag["vectors"]) * np.sqrt(size)[:, None]
        assert 0.9 < share.max() <= 1.0


@pytest.mark.parametrize("kind", [HYBRID, ONE_HOT])
def test_original_files(data, tmp_path, kind):
    model = make(data, kind)
    losses(model, BATCHES)
    model.save_params_to_files(str(tmp_path / "m"))
    saved = read_table(tmp_path / "m0_sparse_0.model", 4)
    assert (saved.slot_ids is not None) == (kind == ONE_HOT)
    if saved.slot_ids is not None:
        slots = np.searchsorted(OFFSETS, saved.keys, "right") - 1
        np.testing.assert_array_equal(slots, saved.slot_ids)

    # One file of rows, as versions up to 3.0 wrote it.
    fields = [("key", "<i8"), ("slot", "<u8"), ("vector", "<f4", 4)]
    kinds = np.dtype([f for f in fields if f[0] != "slot" or saved.slot_ids is not None])
    rows = np.zeros(len(saved.keys), kinds)
    rows["key"], rows["vector"] = saved.keys, saved.vectors
    if saved.slot_ids is not None:
        rows["slot"] = saved.slot_ids
    rows.tofile(tmp_path / "old.model")
    for path in (tmp_path / "m0_sparse_0.model", tmp_path / "old.model"):
        other = make(data, kind, 2)
        other.load_sparse_weights([str(path)])
        bag = other.session.table(0).dump(False)
        order = np.argsort(saved.keys)
        np.testing.assert_array_equal(np.sort(bag["keys"]), saved.keys[order])
        found = bag["vectors"][np.argsort(bag["keys"])]
        np.testing.assert_array_equal(found, saved.vectors[order])


def test_graph_files_keep_the_settings_of_a_hybrid(data, tmp_path):
    param = hugectr.HybridEmbeddingParam(
        2, -1, 0.02, 1.3e11, 2.6e11, 1.0, True, True,
        hugectr.CommunicationType.IB_NVLink, hugectr.HybridEmbeddingType.Distributed,
    )  # fmt: skip
    model = make(data, HYBRID, hybrid_embedding_param=param)
    model.graph_to_json(tmp_path / "graph.json")
    layers = json.loads((tmp_path / "graph.json").read_text())["layers"]
    entry = next(layer for layer in layers if layer["name"] == "emb")
    assert entry["type"] == HYBRID
    settings = entry["sparse_embedding_hparam"]
    assert settings["communication_type"] == "IB_NVLink"
    assert settings["p_dup_max"] == 0.02
    again = hugectr.Model(model.solver, model.reader_params, model.opt_params)
    again.construct_from_json(tmp_path / "graph.json")
    assert again.embeddings[0].hybrid_embedding_param == param
    again.compile()
    assert losses(again, 3).tolist() == losses(make(data, HYBRID), 3).tolist()

    settings["communication_type"] = "Ethernet"
    (tmp_path / "graph.json").write_text(json.dumps({"layers": layers}))
    with pytest.raises(hugectr.InvalidArgument, match="communication_type"):
        hugectr.Model(model.solver, model.reader_params, model.opt_params).construct_from_json(
            tmp_path / "graph.json"
        )


@pytest.mark.parametrize("kind", [HYBRID, ONE_HOT])
def test_slots_that_may_hold_several_keys(data, kind):
    """v3's scripts allow two where the data has one. Where there are two, they are combined."""
    one = losses(make(data, kind), 4).tolist()
    assert losses(make(data, kind, nnz=2), 4).tolist() == one
    keys = np.repeat(data.sparse["keys"][0], 2)
    several = from_arrays(
        data.label, data.dense, {"keys": (keys, np.arange(0, keys.size + 1, 2, dtype=np.uint64))}
    )
    more = {"initializer": hugectr.Uniform(np.sqrt(1 / sum(SIZES)))} if kind == HYBRID else {}
    twice = losses(make(several, kind, nnz=2), 4).tolist()
    assert twice == losses(make(several, HASH[kind], nnz=2, **more), 4).tolist()
    assert twice != one


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: table(ONE_HOT, slot_size_array=[]), "slot_size_array"),
        (lambda: table(HYBRID, slot_size_array=[]), "slot_size_array"),
        (lambda: table(HYBRID, hybrid_embedding_param=1), "HybridEmbeddingParam"),
        (lambda: hugectr.HybridEmbeddingParam(p_dup_max=2), "p_dup_max"),
        (lambda: hugectr.HybridEmbeddingParam(communication_type="IB"), "communication_type"),
    ],
)
def test_wrong_settings_are_refused(call, text):
    with pytest.raises(hugectr.InvalidArgument, match=text):
        call()


def test_a_hybrid_table_needs_a_bound(data):
    """Its own, or a memory; the solver may have that, so a table alone is not refused."""
    with pytest.raises(hugectr.InvalidArgument, match="workspace_size_per_gpu_in_mb"):
        start(data, 1).add(table(HYBRID, workspace_size_per_gpu_in_mb=0))


def test_a_size_for_each_slot(data):
    for kind in (HYBRID, ONE_HOT):
        with pytest.raises(hugectr.InvalidArgument, match="each of the 3 slots"):
            start(data, 1).add(table(kind, slot_size_array=[4, 4]))


@pytest.mark.parametrize("devices", [1, 3])
def test_a_hybrid_has_its_frequent_rows_on_every_device(data, devices):
    model = make(data, HYBRID, devices)
    found = losses(model, 6)
    assert model.session.table(0).placement() == ("hybrid" if devices > 1 else "by_key")
    initializer = hugectr.Uniform(np.sqrt(1 / sum(SIZES)))
    alone = losses(make(data, HASH[HYBRID], 1, initializer=initializer), 6)
    np.testing.assert_allclose(found, alone, rtol=1e-5)
    # What is asked for is what it gets, and rows that go have one place each.
    for more in ({"placement": "by_key"}, {"max_rows": 1000}):
        assert make(data, HYBRID, devices, **more).session.table(0).placement() == "by_key"


def test_the_parameters_of_a_hybrid_choose_its_frequent_keys(data):
    keys, counts = np.unique(data.sparse["keys"][0], return_counts=True)

    def frequent(rows=None, **settings):
        param = hugectr.HybridEmbeddingParam(**settings)
        budget = (
            {}
            if rows is None
            else {"workspace_size_per_gpu_in_mb": 0, "max_vocabulary_size_per_gpu": rows}
        )
        model = make(data, HYBRID, 2, hybrid_embedding_param=param, **budget)
        return model._graph._frequent.get("emb", [])

    own = BATCH // 2

    def often(p_dup_max):
        return counts >= BATCH * BATCHES * np.sqrt(2 * p_dup_max / (own * (own - 1)))

    for p_dup_max in (0.01, 0.1, 0.5):
        wanted = keys[often(p_dup_max)]
        assert frequent(p_dup_max=p_dup_max, max_num_frequent_categories=9) == wanted.tolist()
    first = keys[np.lexsort((keys, -counts))][:BATCH]
    assert frequent(max_num_frequent_categories=1) == sorted(first.tolist())
    assert frequent(max_num_frequent_categories=0) == []
    # No more than a device may have rows of: the others are by key, where there may be room.
    order = np.lexsort((keys, -counts))
    first = keys[order[often(0.5)[order]]][:7]
    assert frequent(rows=7, max_num_frequent_categories=9, p_dup_max=0.5) == sorted(first.tolist())


def test_a_direct_table_takes_keys_of_its_slots_alone(data):
    keys = data.sparse["keys"][0].copy()
    keys[keys == SIZES[0] - 1] = 0  # so that a hash table has room for one that is none of theirs

    def trained(kind, keys, devices=1, steps=BATCHES, **more):
        samples = len(keys) // len(SIZES)
        source = from_arrays(
            np.zeros((samples, 1), np.float32), np.ones((samples, DENSE), np.float32),
            {"keys": (keys, np.arange(len(keys) + 1, dtype=np.uint64))},
        )  # fmt: skip
        model = make(source, kind, devices, **more)
        return model, losses(model, steps).tolist()

    # Counted in each slot, or over all of them, and both in one table: the keys they are.
    local = (keys.reshape(-1, len(SIZES)) - OFFSETS).ravel()
    mixed = np.where(local % 2 == 0, local, keys)
    for found in (keys, local, mixed):
        for devices in (1, 2):
            _, direct = trained(ONE_HOT, found, devices)
            assert direct == trained(HASH[ONE_HOT], found, devices)[1]
    for slot, wrong in ((0, 40), (1, 47), (1, 39), (2, 72), (2, -1), (0, 10**12)):
        bad = keys.copy()
        bad[7 * len(SIZES) + slot] = wrong
        for devices in (1, 2):
            with pytest.raises(
                hugectr.InvalidArgument,
                match=f"'emb': sample 7, slot {slot} of the batch has the key {wrong}, which is "
                f"none of its {SIZES[slot]} ",
            ):
                trained(ONE_HOT, bad, devices)
        assert trained(HASH[ONE_HOT], bad)[1]


@pytest.mark.parametrize("placement", [None, "by_key", "one_device", "replicated"])
def test_checkpoints_move_between_direct_and_hashed_tables(data, tmp_path, placement):
    first = make(data, ONE_HOT, 2, placement=placement)
    losses(first, 3)
    first.save(tmp_path / "run")
    following = losses(first, 3)
    for kind, devices in ((HASH[ONE_HOT], 2), (ONE_HOT, 2), (HASH[ONE_HOT], 1), (ONE_HOT, 3)):
        again = make(data, kind, devices, placement=placement)
        again.resume(tmp_path / "run")
        np.testing.assert_allclose(losses(again, 3), following, rtol=1e-6)
    # Rows that the sizes do not allow are refused, and the table is as before.
    first.save_params_to_files(str(tmp_path / "m"))
    small = make(data, ONE_HOT, 1, slot_size_array=[40, 7, 20])
    with pytest.raises(hugectr.InvalidArgument, match="in slot 2, which slot_size_array does not"):
        small.load_sparse_weights([str(tmp_path / "m0_sparse_0.model")])
    assert small.table_stats()[0]["rows"] == 0


def test_evaluation_of_a_direct_table_reads_nothing_of_other_keys(data):
    model, hashed = make(data, ONE_HOT), make(data, HASH[ONE_HOT])
    losses(model, 3), losses(hashed, 3)
    keys = data.sparse["keys"][0].copy()
    keys[::4] = 10**9
    other = from_arrays(
        np.zeros((BATCH * BATCHES, 1), np.float32),
        np.ones((BATCH * BATCHES, DENSE), np.float32),
        {"keys": (keys, data.sparse["keys"][1])},
    )
    np.testing.assert_array_equal(model.predict(other), hashed.predict(other))


def test_rows_of_a_direct_table_come_and_go(data):
    def run(kind):
        model = make(data, kind, 2, max_rows=30, evict="lru", evict_every=2)
        found = losses(model, 10).tolist()
        return found, model.table_stats()[0]["evicted"]

    found, evicted = run(ONE_HOT)
    assert evicted > 0
    assert (found, evicted) == run(HASH[ONE_HOT])


def test_the_index_of_a_direct_table_is_small(data):
    def index(kind):
        model = make(data, kind)
        entries = model.plan().memory.by_part("emb")
        return entries["index"], model

    direct, model = index(ONE_HOT)
    hashed, _ = index(HASH[ONE_HOT])
    assert direct < hashed
    assert model.get_params_num() > 0
