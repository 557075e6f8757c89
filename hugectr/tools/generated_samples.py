# SPDX-License-Identifier: Apache-2.0
"""Drawing generated samples, a piece at a time, the same for every format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hugectr.tools.key_distribution import draw_keys

if TYPE_CHECKING:
    from hugectr.tools.data_generator import DataGeneratorParams

DENSE_COUNTS = 100  # integer dense features lie below


@dataclass(frozen=True)
class Piece:
    """Samples that are drawn together, and where they go.

    Attributes
    ----------
    set_id : int
        0 training, 1 evaluation.
    index : int
        Number of the piece in its set.
    rows : int
    path : str
        File to write to.
    first_row : int
        Raw: where in the file.
    """

    set_id: int
    index: int
    rows: int
    path: str
    first_row: int = 0


@dataclass(frozen=True)
class Samples:
    """Drawn samples: label (n, label_dim), dense (n, dense_dim), a slot's keys (n, nnz) from 0."""

    label: npt.NDArray[np.float32]
    dense: npt.NDArray[np.float32]
    keys: list[npt.NDArray[np.int64]]


def draw(params: DataGeneratorParams, seed: int, piece: Piece) -> Samples:
    """Draw a piece; it depends on the seed, the set and the index only."""
    n = piece.rows
    sequence = np.random.SeedSequence([seed, piece.set_id, piece.index])
    generator = np.random.Generator(np.random.PCG64DXSM(sequence))
    dense = generator.random((n, params.dense_dim), dtype=np.float32)
    if params.is_raw and not params.float_label_dense:
        dense = np.floor(dense * DENSE_COUNTS)
    keys = [
        draw_keys(generator, n * nnz, 0, size, params.dist_type, params.alpha).reshape(n, nnz)
        for size, nnz in zip(params.slot_size_array, params.nnz_array, strict=True)
    ]
    label = generator.random((n, params.label_dim), dtype=np.float32)
    if params.planted_signal:
        label = (label < _probability(params, seed, keys, dense)).astype(np.float32)
    elif params.is_raw and not params.float_label_dense:
        label = np.floor(label * 2)
    return Samples(label, dense, keys)


def _probability(
    params: DataGeneratorParams,
    seed: int,
    keys: list[npt.NDArray[np.int64]],
    dense: npt.NDArray[np.float32],
) -> npt.NDArray[np.float64]:
    """P(label = 1), (n, label_dim): the hidden model, of the seed only, for every label."""
    columns = []
    features = dense - 0.5
    if params.is_raw and not params.float_label_dense:
        features = dense / DENSE_COUNTS - 0.5
    for label in range(params.label_dim):
        salt = np.uint64(np.random.SeedSequence([seed, 2, label]).generate_state(1)[0])
        logit = np.zeros(len(dense))
        low = 0
        for slot, size in zip(keys, params.slot_size_array, strict=True):
            logit += _hidden_weights(slot + low, salt).mean(axis=1) * (2.0 / params.num_slot**0.5)
            low += size
        if params.dense_dim:
            factors = _hidden_weights(np.arange(params.dense_dim), ~salt)
            logit += features @ factors * (2.0 / params.dense_dim**0.5)
        columns.append(1 / (1 + np.exp(-logit)))
    return np.stack(columns, axis=1)


def _hidden_weights(keys: npt.NDArray[Any], salt: np.uint64) -> npt.NDArray[np.float64]:
    """A number of unit variance for each key, by hashing, so that no table is needed."""
    with np.errstate(over="ignore"):  # the arithmetic is modulo 2^64
        z = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + salt
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return np.asarray((z.astype(np.float64) * 2.0**-63 - 1.0) * 3.0**0.5, dtype=np.float64)
