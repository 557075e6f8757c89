# SPDX-License-Identifier: Apache-2.0
"""Embedding collections: look-ups that share tables, against NumPy and against plain tables."""

from __future__ import annotations

import json

import numpy as np
import pytest

import hugectr
from hugectr import EmbeddingCollectionConfig, EmbeddingTableConfig
from hugectr.data import from_arrays

BATCH, BATCHES, DENSE = 24, 4, 2
#: Sparse input -> most keys, and whether all samples have them.
INPUTS = {"target": (1, True), "history": (5, False), "category": (3, False)}
KEYS = 30
LAYER = hugectr.Layer_t


class Data:
    """Samples, and their keys as lists."""

    def __init__(self, rng: np.random.Generator) -> None:
        n = BATCH * BATCHES
        self.label = rng.integers(0, 2, (n, 1)).astype(np.float32)
        self.dense = rng.standard_normal((n, DENSE)).astype(np.float32)
        self.keys = {}
        sparse = {}
        for name, (most, fixed) in INPUTS.items():
            counts = np.full(n, most) if fixed else rng.integers(0, most + 1, n)
            offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64)
            keys = rng.integers(0, KEYS, int(offsets[-1])).astype(np.int64)
            sparse[name] = (keys, offsets)
            self.keys[name] = np.split(keys, offsets[1:-1].astype(np.int64))
        self.samples = from_arrays(self.label, self.dense, sparse)


@pytest.fixture
def data(rng: np.random.Generator) -> Data:
    return Data(rng)


def start(data: Data, devices: int = 1, optimizer: str = "SGD", **more) -> hugectr.Model:
    solver = hugectr.CreateSolver(
        batchsize=BATCH,
        batchsize_eval=BATCH,
        max_eval_batches=BATCHES,
        lr=0.1,
        seed=5,
        vvgpu=[list(range(devices))],
        device="cpu",
        i64_input_key=True,
        **more,
    )
    reader = hugectr.DataReaderParams(
        hugectr.DataReaderType_t.Norm, data.samples, eval_source=data.samples
    )
    params = hugectr.CreateOptimizer(hugectr.Optimizer_t[optimizer])
    model = hugectr.Model(solver, reader, params)
    sparse = [
        hugectr.DataReaderSparseParam(name, most, fixed, 1)
        for name, (most, fixed) in INPUTS.items()
    ]
    model.add(hugectr.Input(1, "label", DENSE, "dense", sparse))
    return model


def finish(model: hugectr.Model, flat: list[str]) -> hugectr.Model:
    layer = hugectr.DenseLayer
    model.add(layer(LAYER.Concat, [*flat, "dense"], ["x"]))
    model.add(layer(LAYER.InnerProduct, ["x"], ["logit"], num_output=1))
    model.add(layer(LAYER.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    return model


def collection(goods_init=None, category_init=None) -> EmbeddingCollectionConfig:
    """One table for a target and its history, and another one; both forms of look-ups."""
    goods = EmbeddingTableConfig("goods", KEYS, 4, init_param=goods_init)
    category = EmbeddingTableConfig("categories", -1, 2, None, category_init)
    made = EmbeddingCollectionConfig()
    made.embedding_lookup(
        table_config=goods, bottom_name="target", top_name="target_vector", combiner="sum"
    )
    made.embedding_lookup(
        table_config=[goods, category],
        bottom_name=["history", "category"],
        top_name="rest",
        combiner=["mean", "mean"],
    )
    return made


def shared(data: Data, devices: int = 1, optimizer: str = "SGD", sharded=None, **inits):
    model = start(data, devices, optimizer)
    made = collection(**inits)
    if sharded:
        made.shard(**sharded)
    model.add(made)
    model.add(hugectr.DenseLayer(LAYER.Reshape, ["target_vector"], ["t"], leading_dim=4))
    return finish(model, ["t", "rest"])


def losses(model: hugectr.Model, steps: int = 8) -> list[float]:
    found = []
    for _ in range(steps):
        assert model.train()
        found.append(model.get_current_loss())
    return found


def rows_of(model: hugectr.Model) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    return {
        name: (bag["keys"], bag["vectors"])
        for name, bag in (
            (name, model.session.table(i).dump(False))
            for i, name in enumerate(e.sparse_embedding_name for e in model.embeddings)
        )
    }


def test_tops_have_the_shapes_of_v3(data):
    tops = {
        top: shape
        for _, _, tops, shapes in shared(data).layer_summary()
        for top, shape in zip(tops, shapes, strict=True)
    }
    assert tops["target_vector"] == (None, 1, 4)
    assert tops["rest"] == (None, 6)


#: Look-ups of ``shared``, in the order of what the network reads: table, input, combiner.
PARTS = [
    ("goods", "target", "mean"),
    ("goods", "history", "mean"),
    ("categories", "category", "mean"),
]


class Reference:
    """The same net in float64: plain Python over keys."""

    def __init__(self, model: hugectr.Model, data: Data, parts=PARTS) -> None:
        self.data, self.parts = data, parts
        dense = model.session.network.dense_weights().astype(np.float64)
        self.w, self.bias = dense[:-1].copy(), dense[-1]
        self.rows = {
            name: {k: v.astype(np.float64) for k, v in zip(*pair, strict=True)}
            for name, pair in rows_of(model).items()
        }

    def vectors(self, table: str, keys, how: str, most: int) -> np.ndarray:
        """Of a slot: one, or as many as it may have keys."""
        rows = np.zeros((most, 4 if table == "goods" else 2))
        for i, key in enumerate(keys):
            rows[i] = self.rows[table][key]
        return rows.ravel() if how == "concat" else rows.sum(0) / max(1, len(keys))

    def step(self, first: int, lr: float = 0.1) -> float:
        loss, w_gradient, bias_gradient = 0.0, np.zeros_like(self.w), 0.0
        row_gradients: dict[tuple[str, int], np.ndarray] = {}
        for i in range(first, first + BATCH):
            looked_up = [(t, self.data.keys[name][i], how) for t, name, how in self.parts]
            pooled = [
                self.vectors(*one, INPUTS[name][0])
                for one, (_, name, _) in zip(looked_up, self.parts, strict=True)
            ]
            x = np.concatenate([*pooled, self.data.dense[i]])
            z, y = x @ self.w + self.bias, float(self.data.label[i, 0])
            loss += np.log1p(np.exp(-abs(z))) + max(z, 0.0) - z * y
            dz = (1 / (1 + np.exp(-z)) - y) / BATCH
            w_gradient += dz * x
            bias_gradient += dz
            at = 0
            for (table, keys, how), vector in zip(looked_up, pooled, strict=True):
                dv = dz * self.w[at : at + len(vector)]
                at += len(vector)
                width = 4 if table == "goods" else 2
                for nth, key in enumerate(keys):
                    own = dv[nth * width : (nth + 1) * width] if how == "concat" else dv / len(keys)
                    row_gradients[table, key] = row_gradients.get((table, key), 0.0) + own
        self.w -= lr * w_gradient
        self.bias -= lr * bias_gradient
        for (table, key), gradient in row_gradients.items():
            self.rows[table][key] = self.rows[table][key] - lr * gradient
        return loss / BATCH


def check_training(model: hugectr.Model, data: Data, parts=PARTS) -> None:
    """Two passes over the data, against float64."""
    # All rows there are, as new as they come: a rate of 0 trains nothing.
    model.set_learning_rate(0.0)
    for _ in range(BATCHES):
        model.train()
    model.set_learning_rate(0.1)
    reference = Reference(model, data, parts)
    found, wanted = [], []
    for step in range(2 * BATCHES):
        assert model.train()
        found.append(model.get_current_loss())
        wanted.append(reference.step(step % BATCHES * BATCH))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    for name, (keys, vectors) in rows_of(model).items():
        assert set(keys) == set(reference.rows[name])
        expected = np.array([reference.rows[name][k] for k in keys])
        np.testing.assert_allclose(vectors, expected, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("devices", [1, 3])
def test_a_table_learns_from_all_its_look_ups(data, devices):
    check_training(shared(data, devices), data)


@pytest.mark.parametrize("devices", [1, 3])
def test_concat_keeps_the_vectors_of_a_slot_in_order(data, devices):
    model = start(data, devices)
    goods = EmbeddingTableConfig("goods", KEYS, 4)
    category = EmbeddingTableConfig("categories", -1, 2)
    made = EmbeddingCollectionConfig()
    made.embedding_lookup(goods, "target", "target_vector", "sum")
    made.embedding_lookup(goods, "history", "history_vectors", "concat")
    made.embedding_lookup([category], ["category"], "category_vectors", ["concat"])
    model.add(made)
    model.add(hugectr.DenseLayer(LAYER.Reshape, ["target_vector"], ["t"], leading_dim=4))
    model.add(hugectr.DenseLayer(LAYER.Reshape, ["history_vectors"], ["h"], leading_dim=20))
    model = finish(model, ["t", "h", "category_vectors"])
    shapes = {
        top: shape
        for _, _, tops, found in model.layer_summary()
        for top, shape in zip(tops, found, strict=True)
    }
    assert shapes["target_vector"] == (None, 1, 4)
    assert shapes["history_vectors"] == (None, 5, 4)
    assert shapes["category_vectors"] == (None, 6)
    parts = [
        ("goods", "target", "concat"),
        ("goods", "history", "concat"),
        ("categories", "category", "concat"),
    ]
    check_training(model, data, parts)


def test_look_ups_of_one_key_are_slots_of_a_plain_table(data):
    """The same arithmetic, so the same bits."""
    model = start(data)
    table = EmbeddingTableConfig("goods", KEYS, 4)
    made = EmbeddingCollectionConfig()
    made.embedding_lookup(table, "history", "history_vector", "sum")
    model.add(made)
    model.add(hugectr.DenseLayer(LAYER.Reshape, ["history_vector"], ["h"], leading_dim=4))
    found = losses(finish(model, ["h"]))

    plain = start(data)
    plain.add(
        hugectr.SparseEmbedding(
            hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash,
            1,
            4,
            "sum",
            "vectors",
            "history",
            initializer=hugectr.Uniform(np.sqrt(1 / KEYS)),
        )
    )
    plain.add(hugectr.DenseLayer(LAYER.Reshape, ["vectors"], ["h"], leading_dim=4))
    assert found == losses(finish(plain, ["h"]))


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_placements_and_devices_give_one_model(data, optimizer):
    wanted = losses(shared(data, 1, optimizer))
    both = [["goods", "categories"]] * 2
    for strategy, compression in (
        ([("mp", ["goods", "categories"])], {}),
        (
            [("mp", ["goods"]), ("dp", ["categories"])],
            {hugectr.CompressionStrategy.Unique: ["goods"]},
        ),
        ([("mp", ["goods", "categories"])], {hugectr.CompressionStrategy.Reduction: ["goods"]}),
    ):
        sharded = {
            "shard_matrix": both,
            "shard_strategy": strategy,
            "compression_strategy": compression,
        }
        found = losses(shared(data, 2, optimizer, sharded))
        np.testing.assert_allclose(found, wanted, rtol=1e-5 if optimizer == "SGD" else 1e-4)


def test_new_rows_are_as_the_initialiser_says(data):
    model = shared(data, category_init=hugectr.Sinusoidal())
    model.set_learning_rate(0.0)
    losses(model, BATCHES)
    rows = rows_of(model)
    goods = rows["goods"][1]
    assert 0.5 * KEYS**-0.5 < np.abs(goods).max() <= KEYS**-0.5
    keys, vectors = rows["categories"]
    np.testing.assert_allclose(vectors, np.stack([np.sin(keys), np.cos(keys)], 1), atol=1e-6)
    small = shared(data, goods_init=hugectr.Uniform(0.001))
    losses(small, 1)
    small = shared(data, goods_init=hugectr.Uniform(0.001))
    small.set_learning_rate(0.0)
    losses(small, 1)
    assert 0.0005 < np.abs(rows_of(small)["goods"][1]).max() <= 0.001


@pytest.mark.parametrize("devices", [1, 2])
def test_dump_and_load(data, tmp_path, devices):
    model = shared(data, devices)
    losses(model)
    model.embedding_dump(tmp_path / "all")
    folder = tmp_path / "all" / "embedding_collection_0"
    rows = rows_of(model)

    meta = (folder / "meta_data").read_bytes()
    counts = [len(rows[name][0]) for name in ("goods", "categories")]
    assert np.frombuffer(meta, "<i4", 5).tolist() == [2, 1, 0, 0, 4]
    assert np.frombuffer(meta, "<i4", 2, 20).tolist() == [0, 1]
    assert np.frombuffer(meta, "<u8", 2, 28).tolist() == counts
    assert np.frombuffer(meta, "<i4", 2, 44).tolist() == [4, 2]
    assert len(meta) == 52
    for t, name in enumerate(("goods", "categories")):
        key, weight = ((folder / f"{what}{t}").read_bytes() for what in ("key", "weight"))
        assert np.frombuffer(key, "<i4", 32).tolist() == [1, t] + [0] * 30
        assert np.frombuffer(weight, "<i4", 32).tolist() == [2, t] + [0] * 30
        assert np.frombuffer(key, "<i8", -1, 128).tolist() == rows[name][0].tolist()
        assert weight[128:] == rows[name][1].tobytes()

    other = shared(data)  # another number of devices
    other.embedding_load(tmp_path / "all")
    for name, (keys, vectors) in rows_of(other).items():
        np.testing.assert_array_equal(keys, rows[name][0])
        np.testing.assert_array_equal(vectors, rows[name][1])

    model.embedding_dump(tmp_path / "one", ["categories"])
    names = {file.name for file in (tmp_path / "one" / "embedding_collection_0").iterdir()}
    assert names == {"meta_data", "key1", "weight1"}
    fresh = shared(data)
    fresh.embedding_load(tmp_path / "one", ["categories"])
    assert [len(keys) for keys, _ in rows_of(fresh).values()] == [0, counts[1]]


@pytest.mark.parametrize(
    ("file", "change", "text"),
    [
        ("meta_data", lambda b: b[:-1], "51 bytes"),
        ("meta_data", lambda b: b[:4] + b"\x07" + b[5:], "key type 7"),
        ("meta_data", lambda b: b[:44] + b"\x09" + b[45:], "length 9"),
        ("key0", lambda b: b[:-8], "key0 has"),
        ("weight0", lambda b: b"\x01" + b[1:], "begins with"),
        ("weight1", None, "weight1 is not there"),
    ],
)
def test_damaged_dumps_are_refused(data, tmp_path, file, change, text):
    model = shared(data)
    losses(model, BATCHES)
    model.embedding_dump(tmp_path)
    place = tmp_path / "embedding_collection_0" / file
    if change is None:
        place.unlink()
    else:
        place.write_bytes(change(place.read_bytes()))
    before = rows_of(model)
    with pytest.raises(hugectr.DataError, match=text):
        model.embedding_load(tmp_path)
    np.testing.assert_array_equal(before["goods"][1], rows_of(model)["goods"][1])


def test_graph_files_and_checkpoints_keep_a_collection(data, tmp_path):
    model = shared(data, category_init=hugectr.Sinusoidal())
    losses(model)
    model.graph_to_json(tmp_path / "graph.json")
    entries = json.loads((tmp_path / "graph.json").read_text())["layers"]
    goods = next(entry for entry in entries if entry["name"] == "goods")
    assert goods["bottom"] == ["target", "history"]
    again = hugectr.Model(model.solver, model.reader_params, model.opt_params)
    again.construct_from_json(tmp_path / "graph.json")
    again.compile()
    assert losses(again) == losses(shared(data, category_init=hugectr.Sinusoidal()))

    path = model.save(tmp_path / "run")
    resumed = shared(data, 2, category_init=hugectr.Sinusoidal())
    resumed.resume(path)
    np.testing.assert_allclose(losses(resumed), losses(model), rtol=1e-5)
    wanted = shared(data, category_init=hugectr.Sinusoidal())
    wanted.resume(path)
    loaded = hugectr.load(path, device="cpu")
    np.testing.assert_allclose(
        loaded.predict(data.samples), wanted.predict(data.samples), rtol=1e-6
    )


def test_the_reserved_key_of_a_later_input_is_named(data):
    data.samples.sparse["history"][0][-1] = np.iinfo(np.int64).max
    with pytest.raises(hugectr.InvalidArgument, match="slot 1"):
        losses(shared(data), BATCHES)
    with pytest.raises(hugectr.InvalidArgument, match="slot 1"):
        shared(data).predict(data.samples)


TABLE = EmbeddingTableConfig("t", 10, 4)
ADAM, UNIFORM = hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam), hugectr.Uniform(0.1)


def looked_up(*lookups) -> EmbeddingCollectionConfig:
    made = EmbeddingCollectionConfig()
    for lookup in lookups or [(TABLE, "target", "v", "sum")]:
        made.embedding_lookup(*lookup)
    return made


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: EmbeddingTableConfig("t", 0, 4), "max_vocabulary_size"),
        (lambda: EmbeddingTableConfig("t", 10, 0), "ev_size"),
        (lambda: EmbeddingTableConfig("t", 10, 4, "Adam"), "CreateOptimizer"),
        (lambda: EmbeddingTableConfig("t", 10, 4, init_param=0.1), "hugectr.Uniform"),
        (
            lambda: EmbeddingTableConfig("t", 10, 4, ADAM, opt_params=ADAM),
            "'t': opt_params and opt_params_or_empty: found both",
        ),
        (
            lambda: EmbeddingTableConfig("t", 10, 4, None, UNIFORM, init_param=UNIFORM),
            "'t': init_param and init_param_or_empty: found both",
        ),
        (lambda: looked_up(("items", "target", "v", "sum")), "table_config: found 'items', .*name"),
        (lambda: hugectr.Uniform(0), "up_bound"),
        (lambda: looked_up(([TABLE], ["a", "b"], "v", ["sum"])), "as many of each"),
        (lambda: looked_up((TABLE, "target", "v", "max")), "combiner"),
        (
            lambda: looked_up(
                (TABLE, "target", "v", "sum"),
                (EmbeddingTableConfig("t", 9, 4), "target", "w", "sum"),
            ),
            "one table called 't'",
        ),
        (lambda: looked_up().shard([["t"]], [("tp", ["t"])]), "'mp' or 'dp'"),
        (lambda: looked_up().shard([["u"]], [("mp", ["t"])]), "shard_matrix"),
        (lambda: looked_up().shard([["t"]], []), "'t' as well"),
        (lambda: looked_up().shard([[]], [("mp", ["t"])]), "at least one GPU"),
        (lambda: looked_up().shard([["t"], []], [("dp", ["t"])]), "every GPU"),
        (lambda: looked_up().shard([["t"]], [("mp", ["t"]), ("dp", ["t"])]), "one strategy"),
        (lambda: looked_up().shard([["t"]], [("mp", ["t"])], {"Unique": ["t"]}), "Compression"),
        (lambda: looked_up().shard([["t"]], [("mp", ["t"])], ["t"]), "compression_strategy"),
        (lambda: looked_up().shard(None, [("mp", ["t"])]), "shard_matrix: found None"),
        (lambda: looked_up().shard(2, [("mp", ["t"])]), "shard_matrix: found 2"),
        (lambda: looked_up().shard(["t"], [("mp", ["t"])]), r"shard_matrix\[0\]: found 't'"),
        (lambda: looked_up().shard([["t"]], None), "shard_strategy: found None"),
        (lambda: looked_up().shard([["t"]], "mp"), "shard_strategy: found 'mp'"),
        (lambda: looked_up().shard([["t"]], {"mp": ["t"]}), "shard_strategy: found {"),
        (lambda: looked_up().shard([["t"]], [("mp", ["t"], 1)]), r"list of \(strategy, tables\)"),
        (lambda: looked_up().shard([["t"]], [("mp", 3)]), "shard_strategy: found 3"),
        (
            lambda: looked_up((TABLE, "target", "v", "sum"), (TABLE, "history", "v", "sum")),
            "embedding_lookup 'v': top_name: found 'v', allowed: a name that no other",
        ),
    ],
)
def test_what_v3_refuses_is_refused(make, text):
    with pytest.raises(hugectr.InvalidArgument, match=text):
        make()


@pytest.mark.parametrize(
    ("lookups", "shard", "text"),
    [
        ([(TABLE, "targets", "v", "sum")], None, "sparse input"),
        (
            [(TABLE, "history", "v", "sum"), (TABLE, "category", "w", "mean")],
            None,
            "make it two tables",
        ),
        ([(TABLE, "target", "v", "sum")], ([["t"], ["t"]], [("mp", ["t"])]), "shard_matrix has 2"),
        (
            [(TABLE, "target", "history", "sum")],
            None,
            "embedding_lookup: top_name: found 'history', allowed: a name that no other",
        ),
    ],
)
def test_what_a_model_can_not_take_is_refused(data, lookups, shard, text):
    made = looked_up(*lookups)
    if shard:
        made.shard(*shard)
    with pytest.raises(hugectr.InvalidArgument, match=text):
        start(data).add(made)


def test_a_look_up_behind_shard_is_named(data):
    made = looked_up()
    made.shard([["t"]], [("mp", ["t"])])
    made.embedding_lookup(EmbeddingTableConfig("late", 9, 4), "category", "w", "sum")
    with pytest.raises(hugectr.InvalidArgument, match=r"'late'.*call shard when all look-ups"):
        start(data).add(made)


def test_calls_on_collections_need_one(data):
    model = start(data)
    with pytest.raises(hugectr.InvalidArgument, match="no embedding collection"):
        model.embedding_dump("somewhere")
    model.add(looked_up())
    with pytest.raises(hugectr.InvalidArgument, match="did you mean"):
        model.embedding_load("somewhere", ["tt"])
