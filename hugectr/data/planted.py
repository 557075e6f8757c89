# SPDX-License-Identifier: Apache-2.0
"""Samples with a signal that is known, so that the AUC a model can reach is known too.

Every key has a hidden weight and a hidden vector; the logit of a sample is the sum of its keys'
weights, the pairwise products of its slots' vectors and a linear part of the dense features. Keys
follow a power law. Labels are drawn with the logit's probability.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hugectr.base.places import folder_place
from hugectr.data.arrays import MemoryDataset, from_arrays
from hugectr.data.norm import SlotRows, write_file_list, write_norm

_HIDDEN_DIM = 4


@dataclass(frozen=True)
class PlantedSamples:
    """Generated samples.

    Attributes
    ----------
    label : ndarray of float32, (n, 1)
    dense : ndarray of float32, (n, dense_dim)
    slots : list of (keys, row offsets)
        Keys of each slot, sample by sample; slots do not share keys.
    logit : ndarray of float64, (n,)
        What the labels were drawn from.
    """

    label: npt.NDArray[np.float32]
    dense: npt.NDArray[np.float32]
    slots: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]
    logit: npt.NDArray[np.float64]

    @property
    def ceiling(self) -> float:
        """AUC of the hidden logit: nothing that generalises does better."""
        return auc(self.label, self.logit)

    def part(self, begin: int, end: int) -> PlantedSamples:
        """Samples [begin, end)."""
        slots = [
            (keys[rows[begin] : rows[end]], rows[begin : end + 1] - rows[begin])
            for keys, rows in self.slots
        ]
        return PlantedSamples(
            self.label[begin:end], self.dense[begin:end], slots, self.logit[begin:end]
        )

    def to_memory(self, name: str) -> MemoryDataset:
        """All slots as one sparse input, for a reader of data in memory."""
        n, slot_num = len(self.label), len(self.slots)
        counts = np.stack([np.diff(rows) for _, rows in self.slots], axis=1)
        offsets = np.concatenate([[0], np.cumsum(counts.reshape(-1))])
        keys = np.empty(int(offsets[-1]), np.int64)
        starts = offsets[:-1].reshape(n, slot_num)
        for slot, (values, rows) in enumerate(self.slots):
            inside = np.arange(len(values)) - np.repeat(rows[:-1], counts[:, slot])
            keys[np.repeat(starts[:, slot], counts[:, slot]) + inside] = values
        return from_arrays(self.label, self.dense, {name: (keys, offsets)})


@dataclass(frozen=True)
class PlantedFiles:
    """File lists of written samples, and the AUC of the hidden logit on the evaluation part."""

    train: str
    test: str
    ceiling: float


def auc(label: npt.ArrayLike, score: npt.ArrayLike) -> float:
    """Area under the ROC curve, ties counted half."""
    positive = np.asarray(label).reshape(-1) > 0.5
    _, inverse, counts = np.unique(
        np.asarray(score).reshape(-1), return_inverse=True, return_counts=True
    )
    rank = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    ones = int(positive.sum())
    zeros = len(positive) - ones
    if ones == 0 or zeros == 0:
        raise ValueError("the AUC needs samples of both classes")
    return float((rank[positive].sum() - ones * (ones + 1) / 2) / (ones * zeros))


def make_planted(
    samples: int,
    slot_sizes: Sequence[int],
    *,
    hotness: int | tuple[int, int] = 1,
    dense_dim: int = 4,
    strength: float = 1.5,
    alpha: float = 1.2,
    seed: int = 1,
) -> PlantedSamples:
    """Generate samples.

    Parameters
    ----------
    samples : int
    slot_sizes : sequence of int
        Keys of each slot.
    hotness : int or (int, int)
        Keys of a sample in a slot, or the smallest and largest number of them.
    dense_dim : int
    strength : float
        Standard deviation of the logit; more makes labels surer.
    alpha : float
        Exponent of the power law of the keys, not 1.
    seed : int
    """
    rng = np.random.default_rng(seed)
    low, high = (hotness, hotness) if isinstance(hotness, int) else hotness
    logit = np.zeros(samples)
    total = np.zeros((samples, _HIDDEN_DIM))
    squares = np.zeros(samples)
    slots = []
    first = 0
    for size in slot_sizes:
        counts = rng.integers(low, high + 1, samples)
        rows = np.concatenate([[0], np.cumsum(counts)])
        power = 1.0 - alpha
        draw = ((size + 1.0) ** power - 1.0) * rng.random(int(rows[-1])) + 1.0
        local = np.minimum((draw ** (1.0 / power)).astype(np.int64), size) - 1
        weight, vector = rng.normal(size=size), rng.normal(size=(size, _HIDDEN_DIM))
        owner = np.repeat(np.arange(samples), counts)
        np.add.at(logit, owner, weight[local])
        pooled = np.zeros((samples, _HIDDEN_DIM))
        np.add.at(pooled, owner, vector[local])
        total += pooled
        squares += (pooled * pooled).sum(1)
        slots.append((first + local, rows))
        first += size
    dense = rng.normal(size=(samples, dense_dim)).astype(np.float32)
    logit += 0.5 * ((total * total).sum(1) - squares) / np.sqrt(_HIDDEN_DIM)
    logit += dense @ rng.normal(size=dense_dim)
    logit = strength * (logit - logit.mean()) / logit.std()
    label = (rng.random(samples) < 1.0 / (1.0 + np.exp(-logit))).astype(np.float32)[:, None]
    return PlantedSamples(label, dense, slots, logit)


def write_planted_norm(
    folder: str | os.PathLike[str],
    samples: int,
    eval_samples: int,
    slot_sizes: Sequence[int],
    *,
    hotness: int | tuple[int, int] = 1,
    dense_dim: int = 4,
    strength: float = 1.5,
    files: int = 2,
    seed: int = 1,
) -> PlantedFiles:
    """Generate samples and write them as Norm files with checksums and uint32 keys.

    Parameters
    ----------
    folder : path
        Receives ``train.txt``, ``test.txt`` (file lists) and ``*.data``.
    samples, eval_samples : int
    slot_sizes, hotness, dense_dim, strength, seed
        See :func:`make_planted`.
    files : int
        Files the training samples are spread over.
    """
    folder = folder_place("write_planted_norm: folder", folder).resolve()
    data = make_planted(
        samples + eval_samples,
        slot_sizes,
        hotness=hotness,
        dense_dim=dense_dim,
        strength=strength,
        seed=seed,
    )
    bounds = [int(b) for b in np.linspace(0, samples, files + 1)] + [samples + eval_samples]
    names = [folder / f"train_{i}.data" for i in range(files)] + [folder / "test_0.data"]
    for name, begin, end in zip(names, bounds[:-1], bounds[1:], strict=True):
        part = data.part(begin, end)
        rows: list[SlotRows] = list(part.slots)
        write_norm(name, part.label, part.dense, rows)
    write_file_list(folder / "train.txt", names[:-1])
    write_file_list(folder / "test.txt", names[-1:])
    ceiling = data.part(samples, samples + eval_samples).ceiling
    return PlantedFiles(str(folder / "train.txt"), str(folder / "test.txt"), ceiling)
