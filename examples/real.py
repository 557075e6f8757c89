# SPDX-License-Identifier: Apache-2.0
"""Real sets as the arrays of ``generated.py``, without ``signal``: what ``--data`` names.

All of it is held in memory; for more than some ten million lines make files, as ``data.py`` does.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from generated import (
    GROUPS,
    HISTORY,
    VISITS,
    Arrays,
    clicks,
    histories,
    ratings,
    two_tasks,
    visit_arrays,
    visits,
)

from hugectr.data.adult import SLOTS, AdultEncoder, adult_table
from hugectr.data.criteo import dense_features
from hugectr.data.criteo_categories import Encoding
from hugectr.data.criteo_lines import parse

#: Keys of each category column of Criteo, by hashing.
KEYS = 10_000
Ints = npt.NDArray[np.int64]


def clicks_of(files: Sequence[str] | None, samples: int = 81920, pairs: float = 0.35) -> Arrays:
    """Generated clicks, or Criteo's tab-separated lines (label, 13 integers, 26 categories)."""
    if files is None:
        return clicks(samples, pairs)
    if not files:
        sys.exit("--data takes the names of Criteo's files")
    lines, _ = parse(b"".join(Path(name).read_bytes() for name in files), files[0], 0, False)
    keys = Encoding.by_hash(KEYS).encode(lines).astype(np.int64)
    keys += np.arange(keys.shape[1]) * KEYS
    return {"label": lines.label, "dense": dense_features(lines), "keys": keys}


def two_tasks_of(files: Sequence[str] | None) -> Arrays:
    """Generated clicks and purchases, or Census rows: an income above 50K, and never married.

    Files are Parquet of the columns of ``hugectr.data.adult.adult_table``; without a name those
    that come with the package. What says who is married is left out of the features.
    """
    if files is None:
        return two_tasks()
    tables = [pq.read_table(name) for name in files]
    rows = pa.concat_tables(tables or [adult_table(part) for part in ("train", "test")])
    rows = rows.unify_dictionaries()
    encoder = AdultEncoder(rows)
    never = np.asarray(rows["marital_status"].cast(pa.string())) == "Never-married"
    features = [name for name in SLOTS if name not in ("marital_status", "relationship")]
    keys = [encoder.offsets[name] + encoder.slot_index(rows, name) for name in features]
    label = np.stack([np.asarray(rows["label"]), never], 1).astype(np.float32)
    return {"label": label, "dense": encoder.encode(rows).dense, "keys": np.stack(keys, 1)}


def ratings_of(files: Sequence[str] | None) -> Arrays:
    """Generated ratings, or those of files: liked is 4 and more."""
    if files is None:
        return ratings()
    user, item, rating = _rated(files)
    return {"label": (rating >= 4).astype(np.float32), "user": user, "item": user.max() + 1 + item}


def histories_of(files: Sequence[str] | None, samples: int = 81920, groups: int = GROUPS) -> Arrays:
    """Generated histories, or those of files: what came next, and beside it any other item."""
    if files is None:
        return histories(samples, groups)
    order, item, place = _by_user(*_rated(files)[:2])
    length = np.minimum(place, HISTORY)
    rows = np.argsort(order)  # by time again, so that what is evaluated came last
    rows = rows[length[rows] > 0]
    history = _windows(item, rows - length[rows], length[rows], HISTORY)
    other = np.random.default_rng(1).integers(0, item.max() + 1, len(rows))
    return {
        "label": np.tile(np.array([1, 0], np.float32), len(rows)),
        "target": np.stack([item[rows], other], 1).ravel(),
        "history": history.repeat(2, 0),
        "length": length[rows].repeat(2),
    }


def visits_of(files: Sequence[str] | None) -> Arrays:
    """Generated visits, or those of files: the last ones of each user."""
    if files is None:
        return visits()
    _, item, place = _by_user(*_rated(files)[:2])
    last = np.flatnonzero(np.append(place[1:] == 0, True) & (place > 0))
    length = np.minimum(place[last], VISITS)
    history = _windows(item, last - length, length, VISITS)
    following = _windows(item, last - length + 1, length, VISITS)
    return visit_arrays(history, following, length, int(item.max()) + 1)


def _by_user(user: Ints, item: Ints) -> tuple[Ints, Ints, Ints]:
    """Order of users and, for each, of time; the items in it, and the place of each."""
    order = np.argsort(user, kind="stable")
    ordered = user[order]
    return order, item[order], np.arange(len(user)) - np.searchsorted(ordered, ordered)


def _windows(item: Ints, first: Ints, length: Ints, width: int) -> Ints:
    """(n, width): ``length`` items from ``first`` on, and -1 behind them."""
    steps = np.arange(width)
    at = np.minimum(first[:, None] + steps, len(item) - 1)
    return np.where(steps < length[:, None], item[at], -1)


def _rated(files: Sequence[str]) -> tuple[Ints, Ints, npt.NDArray[np.float64]]:
    """Users, items (both from 0 on) and ratings by time.

    Lines are user, item, rating, time with any of ``, :: tab`` between: MovieLens (``ratings.csv``,
    ``ratings.dat``, ``u.data``) and Amazon's ratings. A line without a number at its end, a
    header, is passed over.
    """
    rows: list[Any] = []
    for name in files:
        for line in Path(name).read_text().splitlines():
            fields = line.replace("::", ",").replace("\t", ",").split(",")
            if fields[-1].strip().isdigit():
                rows.append(fields)
    if not rows or any(len(row) != 4 for row in rows):
        sys.exit(f"--data: {', '.join(files) or 'no file'}: lines are user, item, rating, time")
    columns = np.array(rows, str)
    columns = columns[np.argsort(columns[:, 3].astype(np.int64), kind="stable")]
    user, item = (np.unique(columns[:, i], return_inverse=True)[1] for i in (0, 1))
    return user, item, columns[:, 2].astype(np.float64)
