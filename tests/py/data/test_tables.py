# SPDX-License-Identifier: Apache-2.0
"""Training straight from tables: every kind of column, keys that do not collide, clear refusals."""

import numpy as np
import pyarrow as pa
import pytest

import hugectr
from hugectr.base.errors import DataError, InvalidArgument
from hugectr.data import from_arrow, from_frame, key_of

N = 600


def frame(rng):
    """Columns of every kind that users bring, and the click that depends on two of them."""
    city = rng.integers(0, 5, N)
    user = rng.integers(0, 40, N)
    tags = [list(rng.integers(0, 9, rng.integers(0, 4))) for _ in range(N)]
    taste = rng.standard_normal(40)
    score = 2.0 * (city == 2) - 1.0 + taste[user]
    return {
        "click": (rng.random(N) < 1 / (1 + np.exp(-score))).astype(np.int8),
        "age": rng.random(N) * 60,
        "city": [f"city {c}" for c in city],
        "user": user,
        "tags": [[int(t) for t in ts] for ts in tags],
        "words": [[f"w{t}" for t in ts] if ts else None for ts in tags],
    }


CATEGORICAL = ["city", "user", "tags", "words"]


def train(data, steps=60, reader=None, **solver):
    settings = {"batchsize": 64, "batchsize_eval": 64, "lr": 0.05, "seed": 2, "device": "cpu"}
    settings |= {"i64_input_key": True, "max_eval_batches": 10, **solver}
    model = hugectr.Model(
        hugectr.CreateSolver(**settings),
        hugectr.DataReaderParams(
            hugectr.DataReaderType_t.Parquet, data, eval_source=data, **(reader or {})
        ),
        hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local),
    )
    slots = len(data.columns.sparse["categories"])
    sparse = hugectr.DataReaderSparseParam("categories", 4, False, slots)
    layer, t = hugectr.DenseLayer, hugectr.Layer_t
    model.add(hugectr.Input(1, "label", 1, "dense", [sparse]))
    model.add(
        hugectr.SparseEmbedding(
            hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash,
            1,
            4,
            "sum",
            "table",
            "categories",
        )
    )
    model.add(layer(t.Reshape, ["table"], ["flat"], leading_dim=4 * slots))
    model.add(layer(t.Concat, ["flat", "dense"], ["all"]))
    model.add(layer(t.InnerProduct, ["all"], ["logit"], num_output=1))
    model.add(layer(t.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    model.start_data_reading()
    for _ in range(steps):
        model.train()
    return model


def keys_of(model, tmp_path):
    prefix = str(tmp_path / "m")
    model.save_params_to_files(prefix, 0)
    return set(np.fromfile(f"{prefix}0_sparse_0.model/key", np.int64).tolist())


def test_a_frame_trains_and_its_keys_are_those_of_key_of(rng, tmp_path):
    columns = frame(rng)
    model = train(from_frame(columns, label="click", dense="age", categorical=CATEGORICAL))
    wanted = {key_of("city", c) for c in columns["city"]}
    wanted |= {key_of("user", int(u)) for u in columns["user"]}
    wanted |= {key_of("tags", t) for ts in columns["tags"] for t in ts}
    wanted |= {key_of("words", w) for ws in columns["words"] for w in ws or []}
    assert keys_of(model, tmp_path) == wanted
    assert dict(model.evaluate())["AUC"] > 0.7


def test_numbers_that_columns_share_are_different_keys(rng):
    assert key_of("a", 7) != key_of("b", 7)
    assert key_of("a", "7") != key_of("b", "7")
    keys = [key_of("a", i) for i in range(20000)]
    assert len(set(keys)) == 20000
    assert min(keys) >= 0
    # Fixed for all time: saved tables depend on them.
    assert key_of("city", "Rome") == 1567372807178332436
    assert key_of("user", 42) == 5032133146229684003


@pytest.mark.parametrize("kind", ["dictionary", "large_list", "fixed_list", "int32", "bool"])
def test_arrow_types_of_categories(rng, kind):
    user = rng.integers(0, 2, N)
    column = {
        "dictionary": pa.array([f"u{u}" for u in user]).dictionary_encode(),
        "large_list": pa.array([[int(u)] for u in user], pa.large_list(pa.int32())),
        "fixed_list": pa.array([[int(u), 5] for u in user], pa.list_(pa.int16(), 2)),
        "int32": pa.array(user, pa.int32()),
        "bool": pa.array(user == 1),
    }[kind]
    table = pa.table({"click": pa.array(user == 1), "age": pa.array(rng.random(N)), "c": column})
    data = from_frame(table, label="click", dense="age", categorical=["c"])
    assert dict(train(data, 120).evaluate())["AUC"] > 0.99


def test_pandas_and_polars_when_they_are_there(rng):
    columns = frame(rng)
    arguments = {"label": "click", "dense": "age", "categorical": CATEGORICAL}
    wanted = train(from_frame(columns, **arguments)).evaluate()
    for name in ("pandas", "polars"):
        library = pytest.importorskip(name) if name == "pandas" else None
        if library is not None:
            assert train(from_frame(library.DataFrame(columns), **arguments)).evaluate() == wanted


def test_an_object_with_the_arrow_stream_protocol(rng):
    columns = frame(rng)

    class Frame:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.table(columns).__arrow_c_stream__(requested_schema)

    arguments = {"label": "click", "dense": "age", "categorical": CATEGORICAL}
    wanted = train(from_frame(columns, **arguments), 20).evaluate()
    assert train(from_frame(Frame(), **arguments), 20).evaluate() == wanted


@pytest.mark.parametrize(
    ("changes", "arguments", "words"),
    [
        ({}, {"label": "clack"}, ["clack", "click"]),
        ({"age": [None] + [1.0] * (N - 1)}, {}, ["age", "1 missing"]),
        ({"user": [1.5] * N}, {}, ["user", "double", "integers, text"]),
        ({"tags": [[1, None]] * N}, {}, ["tags", "null inside a list"]),
    ],
)
def test_a_bad_column_is_named(rng, changes, arguments, words):
    settings = {"label": "click", "dense": "age", "categorical": CATEGORICAL} | arguments
    with pytest.raises(InvalidArgument) as caught:
        from_frame(frame(rng) | changes, **settings)
    for word in words:
        assert word in str(caught.value)


def test_what_is_no_table_is_refused():
    with pytest.raises(InvalidArgument, match=r"from_frame: frame.*'int'.*pandas, polars or Arrow"):
        from_frame(3, label="a")
    with pytest.raises(InvalidArgument, match=r"from_arrow: table.*'list'.*pyarrow"):
        from_arrow([1], label="a")


def test_uint32_solver_is_told_what_to_set(rng):
    data = from_frame(frame(rng), label="click", dense="age", categorical=CATEGORICAL)
    with pytest.raises(hugectr.DataError, match="i64_input_key"):
        train(data, i64_input_key=False)


def test_text_where_numbers_are_said_to_be_names_the_column():
    with pytest.raises(InvalidArgument, match=r"column 'age' is of type string.*categorical"):
        from_frame({"click": [0, 1], "age": ["old", "young"]}, label="click", dense="age")
    table = pa.table({"click": [0.0, 1.0], "age": ["old", "young"], "city": [1, 2]})
    data = from_arrow(table, label="click", dense="age", sparse={"categories": ["city"]})
    with pytest.raises(DataError, match=r"column 'age' holds text.*hugectr\.data\.Schema"):
        train(data, steps=1)


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("column", ["city", "user"])
def test_a_negative_key_never_meets_the_slot_before(wide, column):
    """With slot sizes; -1 in the second slot would be the last key of the first."""
    columns = {"click": [0.0, 1.0] * 32, "age": [1.0] * 64, "city": [1] * 64, "user": [2] * 64}
    columns[column] = [2] * 63 + [-1]
    sparse = {"categories": ["city", "user"]}
    data = from_arrow(pa.table(columns), label="click", dense="age", sparse=sparse)
    with pytest.raises(DataError, match=rf"row 63, column '{column}' has key -1: with slot_size_"):
        train(data, steps=1, i64_input_key=wide, reader={"slot_size_array": [10, 10]})


def test_a_negative_key_is_a_category_without_slot_sizes_and_no_uint32(tmp_path):
    columns = {"click": [0.0, 1.0] * 32, "age": [1.0] * 64, "city": [-5, 5] * 32}
    data = from_arrow(
        pa.table(columns), label="click", dense="age", sparse={"categories": ["city"]}
    )
    assert keys_of(train(data, steps=1), tmp_path) == {-5, 5}
    with pytest.raises(DataError, match=r"'city' has key -5, which is no uint32 \(set i64_input"):
        train(data, steps=1, i64_input_key=False)


def test_histories_share_the_keys_of_their_target_and_keep_their_order(rng):
    """As ``Schema`` puts them: an input of the target and its histories, apart from the others."""
    table = {
        "click": [1, 0, 1],
        "city": ["Rome", "Oslo", "Rome"],
        "item": [7, 8, 9],
        "seen": [[9, 7, 8], [], None],
        "bought": [[7], [8, 9], [7]],
        "words": [["a", "b"], ["b"], []],
    }
    sequences = {"seen": "item", "words": None, "bought": "item"}
    data = from_frame(table, label="click", categorical=["city", "item"], sequences=sequences)
    assert data.columns.sparse == {
        "categories": ("city",),
        "item": ("item", "seen", "bought"),
        "words": ("words",),
    }
    assert data.columns.sequences == tuple(sequences)
    key = {i: key_of("item", i) for i in (7, 8, 9)}
    assert data.table.column("item").to_pylist() == [key[7], key[8], key[9]]
    assert data.table.column("seen").to_pylist() == [[key[9], key[7], key[8]], [], []]
    assert data.table.column("bought").to_pylist()[1] == [key[8], key[9]]
    assert data.table.column("words").to_pylist()[0] == [key_of("words", w) for w in "ab"]
    assert from_frame(table, label="click", sequences=["words"]).columns.sparse == {
        "words": ("words",)
    }


def test_a_history_of_a_frame_trains_by_position(rng):
    """What the last two steps of three are decides; of longer histories the last three count."""
    item = rng.integers(0, 9, N)
    seen = [list(map(int, rng.integers(0, 9, rng.integers(1, 7)))) for _ in range(N)]
    click = [int(steps[-1] % 3 == one % 3) for one, steps in zip(item, seen, strict=True)]
    table = {"click": click, "item": item, "seen": seen}
    data = from_frame(table, label="click", sequences={"seen": "item"})
    settings = {"batchsize": 60, "batchsize_eval": 60, "lr": 0.05, "seed": 2, "device": "cpu"}
    model = hugectr.Model(
        hugectr.CreateSolver(**settings, i64_input_key=True, max_eval_batches=10),
        hugectr.DataReaderParams(hugectr.DataReaderType_t.Parquet, data, eval_source=data),
        hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local),
    )
    layer, t = hugectr.DenseLayer, hugectr.Layer_t
    steps = hugectr.DataReaderSparseParam("item", [1, 3], False, 2)
    model.add(hugectr.Input(1, "label", 0, "dense", [steps]))
    kind = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
    model.add(hugectr.SparseEmbedding(kind, 1, 6, "concat", "rows", "item"))
    model.add(layer(t.Reshape, ["rows"], ["flat"], leading_dim=4 * 6))
    model.add(layer(t.Concat, ["flat", "item_lengths"], ["all"]))
    model.add(layer(t.MLP, ["all"], ["logit"], num_outputs=[32, 1], activations=_relu_and_none()))
    model.add(layer(t.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    for _ in range(300):
        model.train()
    assert model.evaluate()["AUC"] > 0.95
    assert model.table_stats()[0]["rows"] == 9


def _relu_and_none():
    return [hugectr.Activation_t.Relu, hugectr.Activation_t.Non]


@pytest.mark.parametrize(
    ("sequences", "words"),
    [
        ({"tags": "words", "words": None}, ["sequences['tags']", "'words', a sequence"]),
        ({"city": None}, ["sequences['city']", "in categorical too"]),
        ({"tags": "town"}, ["column 'town'", "a frame with it"]),
        ({"tags": "age"}, ["'age'", "both a number and a category"]),
    ],
)
def test_sequences_that_can_not_be_are_named(rng, sequences, words):
    with pytest.raises(InvalidArgument) as error:
        from_frame(
            frame(rng), label="click", dense="age", categorical=["city"], sequences=sequences
        )
    for word in words:
        assert word in str(error.value)
