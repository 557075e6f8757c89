# SPDX-License-Identifier: Apache-2.0
"""The same few samples in every format, and a small model over each of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from oracle.small_net import DENSE, SIZES, build

import hugectr
from hugectr.data import Columns, from_arrays, from_arrow, from_frame, write_file_list, write_norm

ROWS = 300
FILES = ("norm", "raw", "raw_async", "parquet")
FORMATS = (*FILES, "arrow", "frame", "arrays")
NAMES = {"norm": "part.norm", "raw": "part.bin", "raw_async": "part.bin", "parquet": "a.parquet"}
COLUMNS = Columns(
    "label",
    [f"dense{i}" for i in range(DENSE)],
    {"keys": [f"slot{i}" for i in range(len(SIZES))]},
)


def arrays(rows: int = ROWS) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Label, dense and keys; no two slots share a key."""
    rng = np.random.default_rng(4)
    starts = np.cumsum([0, *SIZES[:-1]])
    keys = np.stack([rng.integers(0, size, rows) for size in SIZES], axis=1) + starts
    label = (rng.random(rows) < 0.4).astype(np.float32)
    return label, rng.random((rows, DENSE), np.float32), keys.astype(np.int64)


def table(rows: int = ROWS) -> pa.Table:
    """The samples as a table."""
    label, dense, keys = arrays(rows)
    columns = {"label": label} | {f"dense{i}": dense[:, i] for i in range(DENSE)}
    return pa.table(columns | {f"slot{i}": keys[:, i] for i in range(len(SIZES))})


def raw_bytes(rows: int = ROWS) -> bytes:
    """The samples of a Raw file."""
    label, dense, keys = arrays(rows)
    words = [label[:, None].view("<u4"), dense.view("<u4"), keys.astype("<u4")]
    return np.concatenate(words, axis=1).tobytes()


def write(folder: Path, kind: str) -> Path:
    """Write the data file of a format; returns it."""
    path = folder / NAMES[kind]
    if kind == "norm":
        label, dense, keys = arrays()
        write_norm(path, label, dense, keys, check="Sum", i64=True)
    elif kind == "parquet":
        pq.write_table(table(), path, row_group_size=100, write_page_checksum=True)
    else:
        path.write_bytes(raw_bytes())
    return path


def source(folder: Path, kind: str) -> Any:
    """The source of a format; its file, if it has one, was written before."""
    if kind == "norm":
        write_file_list(folder / "list.txt", [folder / NAMES["norm"]])
        return str(folder / "list.txt")
    if kind in FILES:
        return str(folder / NAMES[kind])
    if kind == "arrow":
        return from_arrow(table(), label="label", dense=COLUMNS.dense, sparse=COLUMNS.sparse)
    if kind == "frame":
        slots = COLUMNS.sparse["keys"]
        return from_frame(
            table(), label="label", dense=COLUMNS.dense, categorical=slots, name="keys"
        )
    label, dense, keys = arrays()
    return from_arrays(label, dense, {"keys": keys})


def model(folder: Path, kind: str, of: Any = None, **settings: Any) -> hugectr.Model:
    """A compiled model that trains and evaluates on the data of a format, or on ``of``."""
    types = hugectr.DataReaderType_t
    name = {"norm": types.Norm, "raw": types.Raw, "raw_async": types.RawAsync}
    data = source(folder, kind) if of is None else of
    if kind == "parquet":
        settings.setdefault("columns", COLUMNS)
    if kind == "norm":
        settings.setdefault("check_type", hugectr.Check_t.Sum)
    settings.setdefault("eval_source", data)
    settings.setdefault("num_workers", 2)
    settings.setdefault("async_param", hugectr.AsyncParam(num_threads=2, io_block_size=4096))
    return build(name.get(kind, types.Parquet), data, float_label_dense=True, **settings)
