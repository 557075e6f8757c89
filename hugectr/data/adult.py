# SPDX-License-Identifier: Apache-2.0
"""The Adult (Census Income) data that ships with the package, as model inputs and as Norm files.

Becker, B. and Kohavi, R. (1996), DOI 10.24432/C5XW20, CC BY 4.0 (``adult_ATTRIBUTION.txt``).

Every one of the 14 columns becomes a slot of its own: 8 categorical ones, and the 6 numeric ones
cut into bins at quantiles of the training rows. A few crosses of two columns join them for the
wide side. Bins, vocabularies and the mean and deviation of the dense features come from the
training rows alone.

Keys of slot ``k`` are ``offset[k] + 0 .. size[k] - 1``, where 0 stands for "other": a category that
the training rows do not have. So slots never share a key.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hugectr.data import norm

CATEGORICAL: Final = (
    "workclass",
    "education",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "native_country",
)
#: numeric column -> largest number of bins
NUMERIC: Final = {
    "age": 32,
    "fnlwgt": 16,
    "education_num": 16,
    "capital_gain": 64,
    "capital_loss": 48,
    "hours_per_week": 24,
}
SLOTS: Final = CATEGORICAL + tuple(NUMERIC)
CROSSES: Final = (
    ("education", "occupation"),
    ("marital_status", "age"),
    ("relationship", "education"),
    ("occupation", "hours_per_week"),
    ("workclass", "occupation"),
    ("relationship", "sex"),
    ("education", "age"),
    ("occupation", "sex"),
)
#: heavy-tailed columns go through log(1 + x) before they are normalised
_LOG_COLUMNS: Final = ("fnlwgt", "capital_gain", "capital_loss")
_MISSING: Final = "?"


@cache
def adult_table(split: str) -> pa.Table:
    """The rows as shipped.

    Parameters
    ----------
    split : {"train", "test"}
        32,561 or 16,281 rows, in the order of the original files.
    """
    if split not in ("train", "test"):
        raise ValueError(f"split is {split!r}; allowed: 'train', 'test'")
    return pq.read_table(Path(__file__).with_name(f"adult_{split}.parquet"))


@dataclass(frozen=True)
class AdultInputs:
    """A split as arrays, n rows.

    Attributes
    ----------
    label : ndarray of float32, (n, 1)
    dense : ndarray of float32, (n, 6)
        Normalised numeric columns.
    wide : ndarray of int64, (n, 14 + 8)
        A key for each column and each cross: all of them make up the one slot of the wide side.
    deep : ndarray of int64, (n, 14)
        A key for each slot.
    """

    label: npt.NDArray[np.float32]
    dense: npt.NDArray[np.float32]
    wide: npt.NDArray[np.int64]
    deep: npt.NDArray[np.int64]


def _column(table: pa.Table, name: str) -> npt.NDArray[np.object_]:
    column = table[name].cast(pa.string())
    return np.asarray(pc.fill_null(column, _MISSING).to_pylist(), dtype=object)


class AdultEncoder:
    """Turns rows into keys and dense features; everything it knows comes from the rows given here.

    Parameters
    ----------
    train : pyarrow.Table
        Rows to learn bins, vocabularies and normalisation from.

    Attributes
    ----------
    sizes : dict of str to int
        Keys of each slot, the "other" key included.
    offsets : dict of str to int
        First key of each slot; ``a*b`` names the cross of ``a`` and ``b``.
    deep_keys, num_keys : int
        Keys of the 14 slots, and those of the crosses with them.
    """

    def __init__(self, train: pa.Table) -> None:
        self._vocabulary: dict[str, dict[str, int]] = {}
        self._edges: dict[str, npt.NDArray[np.float64]] = {}
        self._moments: dict[str, tuple[float, float]] = {}
        self.sizes: dict[str, int] = {}
        self.offsets: dict[str, int] = {}
        for name in CATEGORICAL:
            values = sorted(set(_column(train, name)))
            self._vocabulary[name] = {value: i + 1 for i, value in enumerate(values)}
            self.sizes[name] = len(values) + 1
        for name, bins in NUMERIC.items():
            values = train[name].to_numpy().astype(np.float64)
            # Quantiles of the distinct values' own share: a column that is mostly zero would
            # otherwise lose all its bins to the zero.
            body = values[values != 0] if (values == 0).mean() > 0.5 else values
            quantiles = np.quantile(body, np.linspace(0.0, 1.0, bins)[:-1])
            self._edges[name] = np.unique(quantiles)
            self.sizes[name] = len(self._edges[name]) + 2
            transformed = self._transform(name, values)
            self._moments[name] = (float(transformed.mean()), float(transformed.std()))
        first = 0
        for name in SLOTS:
            self.offsets[name] = first
            first += self.sizes[name]
        self.deep_keys = first
        for a, b in CROSSES:
            self.offsets[f"{a}*{b}"] = first
            first += self.sizes[a] * self.sizes[b]
        self.num_keys = first

    @staticmethod
    def _transform(name: str, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.log1p(values) if name in _LOG_COLUMNS else values

    def slot_index(self, table: pa.Table, name: str) -> npt.NDArray[np.int64]:
        """Index of each row inside one slot, (n,), 0 = other."""
        if name in self._vocabulary:
            vocabulary = self._vocabulary[name]
            return np.asarray([vocabulary.get(v, 0) for v in _column(table, name)], dtype=np.int64)
        values = table[name].to_numpy().astype(np.float64)
        below = np.searchsorted(self._edges[name], values, side="right")
        return np.asarray(below + 1, dtype=np.int64)

    def encode(self, table: pa.Table) -> AdultInputs:
        """Encode rows.

        Parameters
        ----------
        table : pyarrow.Table
            Rows with the columns of :func:`adult_table`.
        """
        index = {name: self.slot_index(table, name) for name in SLOTS}
        deep = [self.offsets[name] + index[name] for name in SLOTS]
        crossed = [
            self.offsets[f"{a}*{b}"] + index[a] * self.sizes[b] + index[b] for a, b in CROSSES
        ]
        dense = []
        for name in NUMERIC:
            mean, deviation = self._moments[name]
            values = self._transform(name, table[name].to_numpy().astype(np.float64))
            dense.append((values - mean) / deviation)
        return AdultInputs(
            label=table["label"].to_numpy().astype(np.float32).reshape(-1, 1),
            dense=np.stack(dense, axis=1).astype(np.float32),
            wide=np.stack(deep + crossed, axis=1),
            deep=np.stack(deep, axis=1),
        )


@dataclass(frozen=True)
class AdultFiles:
    """Norm files of the Adult data and what a model has to know of them.

    Attributes
    ----------
    train, test : Path
        File lists.
    train_rows, test_rows : int
    dense_dim, wide_hotness, deep_slots : int
        6 dense features; one wide slot of 22 keys; 14 deep slots of one key.
    """

    train: Path
    test: Path
    train_rows: int
    test_rows: int
    dense_dim: int
    wide_hotness: int
    deep_slots: int


def write_adult_norm(folder: str | os.PathLike[str], files: int = 4) -> AdultFiles:
    """Write both splits as Norm files with checksums.

    Slots of a sample: the wide one, then the 14 deep ones. Wide keys lie above all deep keys.

    Parameters
    ----------
    folder : path
        Receives ``train.txt``, ``test.txt`` (file lists) and ``*.data``; it is made when missing.
    files : int
        Files the training rows are spread over.
    """
    if files < 1:
        raise ValueError(f"files is {files}; at least 1 is needed")
    folder = Path(folder).resolve()
    encoder = AdultEncoder(adult_table("train"))
    rows: dict[str, int] = {}
    for split, parts in (("train", files), ("test", 1)):
        data = encoder.encode(adult_table(split))
        rows[split] = len(data.label)
        bounds = np.linspace(0, rows[split], parts + 1).astype(int)
        names = [folder / f"{split}_{part}.data" for part in range(parts)]
        for name, begin, end in zip(names, bounds[:-1], bounds[1:], strict=True):
            norm.write_norm(
                name,
                data.label[begin:end],
                data.dense[begin:end],
                _slots(data.wide[begin:end] + encoder.deep_keys, data.deep[begin:end]),
            )
        norm.write_file_list(folder / f"{split}.txt", names)
    return AdultFiles(
        train=folder / "train.txt",
        test=folder / "test.txt",
        train_rows=rows["train"],
        test_rows=rows["test"],
        dense_dim=len(NUMERIC),
        wide_hotness=len(SLOTS) + len(CROSSES),
        deep_slots=len(SLOTS),
    )


def _slots(wide: npt.NDArray[np.int64], deep: npt.NDArray[np.int64]) -> list[norm.SlotRows]:
    n, hotness = wide.shape
    slots: list[norm.SlotRows] = [(wide.reshape(-1), np.arange(n + 1) * hotness)]
    return slots + [(deep[:, slot], np.arange(n + 1)) for slot in range(deep.shape[1])]
