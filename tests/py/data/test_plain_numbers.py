# SPDX-License-Identifier: Apache-2.0
"""Numbers in the types that Spark, databases and pandas give them train as any numbers do."""

from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hugectr
from hugectr.data import Columns, from_arrow

LAYER, KIND, ROWS = hugectr.DenseLayer, hugectr.Layer_t, 8
PLAIN = {
    "label": pa.array([0, 1] * 4, pa.float32()),
    "price": pa.array([0.25 * i for i in range(ROWS)], pa.float32()),
    "item": pa.array([i % 5 for i in range(ROWS)], pa.int64()),
    "seen": pa.array([[i % 3, 7] if i % 2 else [] for i in range(ROWS)], pa.list_(pa.int64())),
}


def trained(source, **settings):
    """Loss and predictions after some steps, and the keys that have rows."""
    columns = Columns("label", "price", {"keys": ["item", "seen"]})
    given = (
        source
        if not isinstance(source, pa.Table)
        else from_arrow(source, label="label", dense="price", sparse={"keys": ["item", "seen"]})
    )
    more = settings if given is not source else {"columns": columns, **settings}
    model = hugectr.Model(
        hugectr.CreateSolver(
            batchsize=4, batchsize_eval=4, seed=1, lr=0.1, i64_input_key=True, device="cpu"
        ),
        hugectr.DataReaderParams(
            hugectr.DataReaderType_t.Parquet, given, eval_source=given, **more
        ),
        hugectr.CreateOptimizer(hugectr.Optimizer_t.SGD),
    )
    keys = hugectr.DataReaderSparseParam("keys", [1, 2], False, 2)
    model.add(hugectr.Input(1, "label", 1, "dense", [keys]))
    kind = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
    model.add(hugectr.SparseEmbedding(kind, 1, 2, "sum", "rows", "keys"))
    model.add(LAYER(KIND.Reshape, ["rows"], ["flat"], leading_dim=4))
    model.add(LAYER(KIND.Concat, ["flat", "dense"], ["x"]))
    model.add(LAYER(KIND.InnerProduct, ["x"], ["logit"], num_output=1))
    model.add(LAYER(KIND.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    for _ in range(4):
        model.train()
    return model.get_current_loss(), np.asarray(model.embedding("rows", np.arange(8))).tolist()


def written(tmp_path, columns):
    pq.write_table(pa.table(columns), tmp_path / "data.parquet")
    return str(tmp_path / "data.parquet")


def decimals(name, digits, places):
    return {name: PLAIN[name].cast(pa.float64()).cast(pa.decimal128(digits, places))}


OTHERS = [
    decimals("label", 1, 0),
    decimals("price", 9, 2),
    {"price": pa.array(PLAIN["price"].to_numpy().astype(np.float16))},
    decimals("item", 20, 0),
    {"seen": PLAIN["seen"].cast(pa.list_(pa.decimal128(20, 0)))},
    {"seen": PLAIN["seen"].cast(pa.large_list(pa.decimal256(20, 0)))},
    {name: PLAIN[name].dictionary_encode() for name in ("label", "price", "item")},
    {
        "seen": pa.ListArray.from_arrays(
            PLAIN["seen"].offsets, PLAIN["seen"].values.dictionary_encode()
        )
    },
]


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("in_memory", [False, True])
def test_they_train_alike(tmp_path, other, in_memory):
    table = PLAIN | other
    given = pa.table(table) if in_memory else written(tmp_path, table)
    assert trained(given) == trained(pa.table(PLAIN))


def test_lists_that_are_all_empty_have_no_type(tmp_path):
    empty = {"seen": pa.array([[]] * ROWS)}
    assert pa.types.is_null(empty["seen"].type.value_type)
    typed = {"seen": pa.array([[]] * ROWS, pa.list_(pa.int64()))}
    assert trained(written(tmp_path, PLAIN | empty)) == trained(pa.table(PLAIN | typed))


def test_a_column_without_values_is_missing_row_by_row(tmp_path):
    file = written(tmp_path, PLAIN | {"price": pa.nulls(ROWS)})
    with pytest.raises(hugectr.DataError, match="row 0, column 'price' is null"):
        trained(file)


def test_a_key_beyond_64_bits_and_times_are_named(tmp_path):
    large = pa.array([Decimal(2**63)] * ROWS, pa.decimal128(20, 0))
    with pytest.raises(
        hugectr.DataError, match=r"data.parquet', row group 0, column 'item'.*int64"
    ):
        trained(written(tmp_path, PLAIN | {"item": large}))
    days = {"price": pa.array([date(2024, 1, 1)] * ROWS)}
    with pytest.raises(hugectr.DataError, match=r"column 'price' holds times \(date32\[day\]\)"):
        trained(written(tmp_path, PLAIN | days))
    with pytest.raises(hugectr.DataError, match="column 'price' holds times"):
        trained(pa.table(PLAIN | days))
