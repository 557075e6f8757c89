# SPDX-License-Identifier: Apache-2.0
"""Arrow columns whose offsets, indices or text are damaged are refused where they come in."""

import numpy as np
import pyarrow as pa
import pytest

from hugectr import DataError
from hugectr.data import Schema, from_arrow, from_frame

ROWS = 64


def of_offsets(kind, offsets, child=None, data=b"abc"):
    buffers = [None, pa.py_buffer(np.array(offsets, np.int32).tobytes())]
    if child is not None:
        return pa.Array.from_buffers(kind, ROWS, buffers, children=[child])
    return pa.Array.from_buffers(kind, ROWS, [*buffers, pa.py_buffer(data)])


def of_indices(values):
    return pa.DictionaryArray.from_arrays(pa.array([100000] * ROWS), pa.array(values), safe=False)


FAR = [0, *[10**8] * (ROWS - 1), 3]
DAMAGED = {
    "text beyond": of_offsets(pa.string(), FAR),
    "text before": of_offsets(pa.string(), [0, *[-(10**8)] * (ROWS - 1), 3]),
    "no UTF-8": of_offsets(pa.string(), [0] * (ROWS - 1) + [1, 2], data=b"\xff\xff"),
    "lists of integers": of_offsets(pa.list_(pa.int64()), FAR, pa.array([1, 2, 3])),
    "lists of text": of_offsets(pa.list_(pa.string()), FAR, pa.array(["a", "b", "c"])),
    "indices of text": of_indices(["a", "b"]),
    "indices of integers": of_indices([1, 2]),
}


def table_of(column):
    return pa.table({"l": [0.0, 1.0] * (ROWS // 2), "k": column})


def from_ipc(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return pa.ipc.open_stream(sink.getvalue())


def schema():
    city = pa.array(["Rome", "Oslo"] * (ROWS // 2))
    return Schema.infer(table_of(city), label="l", categorical=["k"])


DOORS = {
    "infer": lambda table: Schema.infer(table, label="l"),
    "encode": lambda table: schema().encode(table),
    "batches": lambda table: list(schema().encode_batches(table, 10)),
    "batch": lambda table: schema().encode(table.combine_chunks().to_batches()[0]),
    "dict": lambda table: schema().encode({"l": table.column("l"), "k": table.column("k")}),
    "dataset": lambda table: schema().encode(pa.dataset.dataset(table)),
    "from_frame": lambda table: from_frame(table, label="l", categorical=["k"]),
    "from_arrow": lambda table: from_arrow(table, label="l", sparse={"k": ["k"]}),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_column_is_named_at_every_door(damage, door):
    import pyarrow.dataset  # noqa: F401 (pa.dataset)

    with pytest.raises(DataError, match=r"column 'k' of type .* is damaged"):
        DOORS[door](table_of(DAMAGED[damage]))


@pytest.mark.parametrize("damage", ["text beyond", "text before", "lists of text", "no UTF-8"])
def test_what_comes_through_ipc_is_looked_at(damage):
    table = table_of(DAMAGED[damage])
    for data in (from_ipc(table), from_ipc(table).read_all()):
        with pytest.raises(DataError, match=r"column 'k' of type .* is damaged"):
            schema().encode(data)


def test_only_the_columns_that_are_read_are_looked_at():
    table = table_of(DAMAGED["text beyond"]).append_column("c", pa.array(["a", "b"] * (ROWS // 2)))
    assert from_frame(table, label="l", categorical=["c"]).samples == ROWS


def test_frames_of_pandas_may_be_made_of_anybodys_buffers():
    pandas = pytest.importorskip("pandas")
    column = pandas.Series(pandas.arrays.ArrowExtensionArray(DAMAGED["text beyond"]))
    frame = pandas.DataFrame({"l": [0.0, 1.0] * (ROWS // 2), "k": column})
    with pytest.raises(DataError, match=r"column 'k' of type string is damaged"):
        schema().encode(frame)


def test_parts_of_tables_and_unusual_values_are_sound():
    dates = pa.Array.from_buffers(pa.date64(), 2, [None, pa.py_buffer(np.array([1, 86400001]))])
    assert dates.validate() is None
    table = pa.table({"l": [0.0, 1.0], "d": dates, "k": pa.array(["Rome", None])})
    assert Schema.infer(table, label="l").encode(table.slice(1)).samples == 1
    data = from_frame(table.slice(1), label="l", categorical=["k"])
    assert data.samples == 1
