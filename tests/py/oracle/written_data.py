# SPDX-License-Identifier: Apache-2.0
"""Norm, Raw and Parquet files by NumPy and pyarrow alone, with a signal in the keys.

Written from the description of the formats, not by the package: what its own generator and its
readers might both have wrong would show here.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SIZES = [40 + 13 * (i % 7) ** 2 for i in range(26)]
#: Keys a slot of the multi-hot Raw file.
HOTNESS = [3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 10, 27, 10, 3, 1, 1]
#: Users, goods and categories of the histories.
USERS, GOODS, CATEGORIES = 200, 300, 12


class World:
    """Samples whose labels are drawn by the sum of a weight a key.

    Parameters
    ----------
    sizes : list of int
        Keys of each slot.
    dense, seed, labels : int
    hot : list of int, optional
        Most keys of each slot; one, when not given.
    fewer : bool
        Whether slots may have fewer keys than that, though at least one.
    """

    def __init__(self, sizes, dense, seed, labels=1, hot=None, fewer=False):
        self.rng = np.random.default_rng(seed)
        self.sizes, self.dense, self.labels, self.fewer = sizes, dense, labels, fewer
        self.hot = hot or [1] * len(sizes)
        self.weights = [self.rng.normal(0, 1, (size, labels)) for size in sizes]
        self.of_dense = self.rng.normal(0, 0.5, (dense, labels))
        self.offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]])

    def draw(self, n):
        """Labels (n, labels), dense (n, dense), and a slot its keys (n, most) and their numbers."""
        rng = self.rng
        dense = rng.random((n, self.dense)).astype(np.float32)
        logit = (dense - 0.5) @ self.of_dense
        slots = []
        for size, most, weights in zip(self.sizes, self.hot, self.weights, strict=True):
            keys = np.minimum((size * rng.random((n, most)) ** 1.5).astype(np.int64), size - 1)
            counts = rng.integers(1, most + 1, n) if self.fewer else np.full(n, most)
            there = np.arange(most)[None] < counts[:, None]
            scale = 3 / np.sqrt(len(self.sizes) * most)
            logit = logit + scale * (weights[keys] * there[..., None]).sum(1)
            slots.append((keys, counts))
        labels = rng.random((n, self.labels)) < 1 / (1 + np.exp(-logit))
        return labels.astype(np.float32), dense, slots


def norm_file(path, sample, offsets):
    """A Norm file with checksums; keys count on over the slots."""
    label, dense, slots = sample

    def framed(payload: bytes) -> bytes:
        return struct.pack("<i", len(payload)) + payload + bytes([sum(payload) & 255])

    head = (1, len(label), label.shape[1], dense.shape[1], len(slots), 0, 0, 0)
    parts = [framed(struct.pack("<8q", *head))]
    for i in range(len(label)):
        payload = label[i].astype("<f4").tobytes() + dense[i].astype("<f4").tobytes()
        for (keys, counts), offset in zip(slots, offsets, strict=True):
            own = (keys[i, : counts[i]] + offset).astype("<u4")
            payload += struct.pack("<i", counts[i]) + own.tobytes()
        parts.append(framed(payload))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(parts))


def norm_set(folder, world, files, rows):
    """Files of so many rows each, and one for evaluation; their lists name them from here."""
    for part, name, count in (("train", "file_list.txt", files), ("val", "file_list_test.txt", 1)):
        paths = [Path(folder) / part / f"sparse_embedding{i}.data" for i in range(count)]
        for path in paths:
            norm_file(path, world.draw(rows if part == "train" else 2 * rows), world.offsets)
        text = "\n".join([str(count), *(f"./{path}" for path in paths)])
        (Path(folder) / name).write_text(text + "\n")


def raw_set(folder, world, rows, eval_rows, floats):
    """Raw files: labels and dense numbers as float32, or as integers (dense is read as a log)."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, count in (("train_data.bin", rows), ("test_data.bin", eval_rows)):
        label, dense, slots = world.draw(count)
        numbers = np.concatenate([label, dense if floats else np.round(20 * dense)], axis=1)
        words = numbers.astype("<f4").view("<i4") if floats else numbers.astype("<i4")
        keys = [keys.astype("<i4") for keys, _ in slots]
        np.concatenate([words, *keys], axis=1).astype("<i4").tofile(Path(folder) / name)


def parquet_files(folder, tables, labels, dense):
    """Parquet files with the file list and ``_metadata.json`` beside them."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"part_{i}.parquet" for i in range(len(tables))]
    for path, table in zip(paths, tables, strict=True):
        pq.write_table(table, path, row_group_size=700)
    columns = [{"col_name": name, "index": i} for i, name in enumerate(tables[0].column_names)]
    stats = zip(paths, tables, strict=True)
    metadata = {
        "file_stats": [{"file_name": path.name, "num_rows": len(table)} for path, table in stats],
        "labels": columns[:labels],
        "conts": columns[labels : labels + dense],
        "cats": columns[labels + dense :],
    }
    (folder / "_metadata.json").write_text(json.dumps(metadata))
    text = "\n".join([str(len(paths)), *(f"./{path}" for path in paths)])
    (folder / "_file_list.txt").write_text(text + "\n")


def parquet_table(world, rows):
    """Samples as columns: numbers for slots of one key, lists for others."""
    label, dense, slots = world.draw(rows)
    columns = {f"label{i}": pa.array(label[:, i]) for i in range(world.labels)}
    columns |= {f"I{i + 1}": pa.array(dense[:, i]) for i in range(world.dense)}
    for s, (keys, counts) in enumerate(slots):
        if world.hot[s] == 1:
            columns[f"C{s + 1}"] = pa.array(keys[:, 0])
            continue
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        there = np.arange(keys.shape[1])[None] < counts[:, None]
        columns[f"C{s + 1}"] = pa.ListArray.from_arrays(pa.array(offsets), pa.array(keys[there]))
    return pa.table(columns)


def parquet_set(folder, world, rows, eval_rows):
    """Two files to train on, one to evaluate."""
    tables = [parquet_table(world, rows // 2) for _ in range(2)]
    parquet_files(f"{folder}/train", tables, world.labels, world.dense)
    last = [parquet_table(world, eval_rows)]
    parquet_files(f"{folder}/val", last, world.labels, world.dense)


def history_table(rng, rows):
    """Ten goods seen, one shown: clicked when it is of a category that the user likes."""
    likes = rng.integers(0, CATEGORIES, (rows, 2))
    liked = likes[np.arange(rows)[:, None], rng.integers(0, 2, (rows, 10))]
    seen = np.where(rng.random((rows, 10)) < 0.75, liked, rng.integers(0, CATEGORIES, (rows, 10)))
    clicked = rng.random(rows) < 0.5
    shown = np.where(clicked, likes[:, 0], rng.integers(0, CATEGORIES, rows))
    kinds = np.concatenate([seen, shown[:, None]], axis=1)
    goods = kinds + CATEGORIES * rng.integers(0, GOODS // CATEGORIES, (rows, 11))
    columns = {"label": clicked.astype(np.float32), "UserID": rng.integers(0, USERS, rows)}
    columns |= {f"GoodID_{i}": goods[:, i] for i in range(11)}
    columns |= {f"CateID_{i}": kinds[:, i] for i in range(11)}
    return pa.table(columns)


def passes(folder, count):
    """Sources of an embedding training cache, each with the keys that are in it."""
    world = World(SIZES, 13, 21)
    for i in range(count):
        sample = world.draw(1600)
        norm_file(Path(folder) / f"{i}.data", sample, world.offsets)
        (Path(folder) / f"file_list.{i}.txt").write_text(f"1\n./{folder}/{i}.data\n")
        slots = zip(sample[2], world.offsets, strict=True)
        keys = np.concatenate([keys[:, 0] + offset for (keys, _), offset in slots])
        np.unique(keys).astype("<u4").tofile(Path(folder) / f"file_list.{i}.keyset")
    norm_file(Path(folder) / "test.data", world.draw(2000), world.offsets)
    (Path(folder) / "file_list_test.txt").write_text(f"1\n./{folder}/test.data\n")


def write_all():
    """What the scripts read, in the working directory."""
    norm_set("criteo_data", World(SIZES, 13, 1, hot=[2] * 26, fewer=True), 12, 400)
    wide = World([800, *SIZES], 13, 4, hot=[30] + [2] * 26, fewer=True)
    norm_set("wdl_data", wide, 12, 400)
    raw_set("criteo_raw", World(SIZES, 13, 5), 8192, 2048, floats=False)
    raw_set("criteo_raw_float", World(SIZES, 13, 6), 6000, 2048, floats=True)
    multi_hot = World(SIZES, 13, 7, hot=HOTNESS)
    raw_set("criteo_multihot_raw", multi_hot, 6144, 2048, floats=True)
    parquet_set("criteo_parquet", World([500, 600, *SIZES], 13, 8), 6000, 2600)
    lists = World(SIZES, 13, 9, hot=[1 if i % 3 else 4 for i in range(26)], fewer=True)
    parquet_set("criteo_parquet_mh", lists, 6000, 2100)
    parquet_set("mmoe", World([91, 73, 20, 30, 17] + [9] * 35, 0, 11, labels=2), 6000, 2300)
    parquet_set("multilabel", World([100] * 8, 4, 12, labels=4), 6000, 3000)
    rng = np.random.default_rng(77)
    parquet_files("din_data/train", [history_table(rng, 4000) for _ in range(2)], 1, 0)
    parquet_files("din_data/valid", [history_table(rng, 3000)], 1, 0)
    passes("etc_data", 5)
