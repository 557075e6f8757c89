# SPDX-License-Identifier: Apache-2.0
"""Generated data sets, for benchmarks and first steps without data of one's own."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.progress import track

from hugectr.arguments import check_bool, check_enum, check_float, check_int, check_ints, check_str
from hugectr.data.norm import write_file_list, write_norm
from hugectr.enums import Check_t, DataReaderType_t, Distribution_t, PowerLaw_t
from hugectr.errors import rejected
from hugectr.tools.key_distribution import draw_keys, power_law_alpha

_WHO = "DataGeneratorParams: "


class DataGeneratorParams:
    """What a generated data set looks like.

    Parameters
    ----------
    format : DataReaderType_t
        Supported: ``DataReaderType_t.Norm``.
    label_dim, dense_dim : int
        Labels and dense features of a sample, uniform in [0, 1).
    num_slot : int
        Number of slots.
    i64_input_key : bool
        Keys are int64 instead of uint32.
    source, eval_source : str
        File lists to write. Data files go to the folders ``train`` and ``val`` beside them.
    slot_size_array : list of int
        Distinct keys of each slot. Slot k's keys start where those of slot k - 1 end.
    nnz_array : list of int
        Keys a sample has in each slot; empty = one.
    check_type : Check_t
    dist_type : Distribution_t
        ``PowerLaw`` or ``Uniform`` keys.
    power_law_type : PowerLaw_t
        ``Long`` 0.9, ``Medium`` 1.1, ``Short`` 1.3, or ``Specific``: ``alpha``.
    alpha : float
        Exponent of the power law, > 0 and != 1.
    num_files, eval_num_files : int
        Files of the two sets.
    num_samples_per_file : int
        Samples in each.
    num_samples, eval_num_samples : int
        Size of the single-file Raw format; not used for Norm.
    float_label_dense : bool
        Number type of the Raw format; Norm is always float.
    seed : int or None
        The same seed gives the same files; None draws one. (Beyond the original.)
    planted_signal : bool
        Labels are 0 or 1, drawn from a logistic model of hidden key weights and of the dense
        features, so that there is something to learn. (Beyond the original.)

    Raises
    ------
    InvalidArgument
        Naming the argument, what was found and what is allowed.
    """

    def __init__(
        self,
        format: DataReaderType_t,
        label_dim: int,
        dense_dim: int,
        num_slot: int,
        i64_input_key: bool,
        source: str,
        eval_source: str,
        slot_size_array: Sequence[int],
        nnz_array: Sequence[int] = (),
        check_type: Check_t = Check_t.Sum,
        dist_type: Distribution_t = Distribution_t.PowerLaw,
        power_law_type: PowerLaw_t = PowerLaw_t.Specific,
        alpha: float = 1.2,
        num_files: int = 128,
        eval_num_files: int = 32,
        num_samples_per_file: int = 40960,
        num_samples: int = 5242880,
        eval_num_samples: int = 1310720,
        float_label_dense: bool = False,
        *,
        seed: int | None = None,
        planted_signal: bool = False,
    ) -> None:
        self.format = check_enum(_WHO + "format", format, DataReaderType_t)
        if self.format != DataReaderType_t.Norm:
            raise rejected(_WHO + "format", format, "the supported formats, DataReaderType_t.Norm")
        self.label_dim = check_int(_WHO + "label_dim", label_dim, 1)
        self.dense_dim = check_int(_WHO + "dense_dim", dense_dim, 0)
        self.num_slot = check_int(_WHO + "num_slot", num_slot, 1)
        self.i64_input_key = check_bool(_WHO + "i64_input_key", i64_input_key)
        self.source = check_str(_WHO + "source", source, empty=False)
        self.eval_source = check_str(_WHO + "eval_source", eval_source, empty=False)
        self.slot_size_array = self._per_slot("slot_size_array", slot_size_array)
        if sum(self.slot_size_array) > 2**32 and not self.i64_input_key:
            raise rejected(
                _WHO + "slot_size_array",
                list(slot_size_array),
                "at most 2^32 keys in all, or i64_input_key=True",
            )
        self.nnz_array = self._per_slot("nnz_array", list(nnz_array) or [1] * self.num_slot)
        self.check_type = check_enum(_WHO + "check_type", check_type, Check_t)
        self.dist_type = check_enum(_WHO + "dist_type", dist_type, Distribution_t)
        self.power_law_type = check_enum(_WHO + "power_law_type", power_law_type, PowerLaw_t)
        self.alpha = power_law_alpha(
            self.power_law_type, check_float(_WHO + "alpha", alpha, 0, exclusive=True)
        )
        if self.alpha == 1:
            raise rejected(_WHO + "alpha", alpha, "a number > 0 other than 1")
        self.num_files = check_int(_WHO + "num_files", num_files, 1)
        self.eval_num_files = check_int(_WHO + "eval_num_files", eval_num_files, 1)
        self.num_samples_per_file = check_int(
            _WHO + "num_samples_per_file", num_samples_per_file, 1
        )
        self.num_samples = check_int(_WHO + "num_samples", num_samples, 1)
        self.eval_num_samples = check_int(_WHO + "eval_num_samples", eval_num_samples, 1)
        self.float_label_dense = check_bool(_WHO + "float_label_dense", float_label_dense)
        self.seed = None if seed is None else check_int(_WHO + "seed", seed, 0)
        self.planted_signal = check_bool(_WHO + "planted_signal", planted_signal)

    def _per_slot(self, name: str, value: Any) -> list[int]:
        numbers = check_ints(_WHO + name, value, 1)
        if len(numbers) != self.num_slot:
            raise rejected(
                _WHO + name,
                f"{len(numbers)} numbers",
                f"one number for each of the {self.num_slot} slots",
            )
        return numbers


class DataGenerator:
    """Writes the data set that its parameters describe.

    Parameters
    ----------
    data_generator_params : DataGeneratorParams

    Examples
    --------
    >>> params = DataGeneratorParams(
    ...     DataReaderType_t.Norm, label_dim=1, dense_dim=13, num_slot=26, i64_input_key=False,
    ...     source="data/file_list.txt", eval_source="data/file_list_test.txt",
    ...     slot_size_array=[10000] * 26, num_files=4, eval_num_files=1)
    >>> DataGenerator(params).generate()
    """

    def __init__(self, data_generator_params: DataGeneratorParams) -> None:
        self.params = data_generator_params
        seed = self.params.seed
        self._seed = secrets.randbits(63) if seed is None else seed

    def generate(self, progress: bool = True) -> None:
        """Write the training and the evaluation set; files that are there are replaced.

        Parameters
        ----------
        progress : bool
            Show a progress bar.
        """
        params = self.params
        sets = [
            (0, "train", params.source, params.num_files),
            (1, "val", params.eval_source, params.eval_num_files),
        ]
        work = [
            (set_id, index, os.path.join(os.path.dirname(source), folder, f"gen_{index}.data"))
            for set_id, folder, source, count in sets
            for index in range(count)
        ]
        for set_id, index, path in track(
            work, "Generating data", transient=True, disable=not progress
        ):
            self._write(np.random.SeedSequence([self._seed, set_id, index]), path)
        # The lists come last: where there is a list, all its files are whole.
        for set_id, _, source, _ in sets:
            write_file_list(Path(source), [path for owner, _, path in work if owner == set_id])

    def _write(self, seed: np.random.SeedSequence, path: str) -> None:
        params, n = self.params, self.params.num_samples_per_file
        generator = np.random.Generator(np.random.PCG64DXSM(seed))
        dense = generator.random((n, params.dense_dim), dtype=np.float32)
        keys, low = [], 0
        for size, nnz in zip(params.slot_size_array, params.nnz_array, strict=True):
            keys.append(draw_keys(generator, n * nnz, low, size, params.dist_type, params.alpha))
            low += size
        label = generator.random((n, params.label_dim), dtype=np.float32)
        if params.planted_signal:
            label = (label < self._probability(keys, dense)).astype(np.float32)
        slots = [
            (slot_keys, np.arange(0, n * nnz + 1, nnz))
            for slot_keys, nnz in zip(keys, params.nnz_array, strict=True)
        ]
        write_norm(path, label, dense, slots, params.check_type, params.i64_input_key)

    def _probability(
        self, keys: list[npt.NDArray[Any]], dense: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.float64]:
        """P(label = 1), (n, label_dim): the hidden model, of the seed only, for every label."""
        params, n = self.params, len(dense)
        columns = []
        for label in range(params.label_dim):
            salt = np.uint64(np.random.SeedSequence([self._seed, 2, label]).generate_state(1)[0])
            logit = np.zeros(n)
            for slot_keys, nnz in zip(keys, params.nnz_array, strict=True):
                weights = _hidden_weights(slot_keys, salt).reshape(n, nnz)
                logit += weights.mean(axis=1) * (2.0 / params.num_slot**0.5)
            if params.dense_dim:
                factors = _hidden_weights(np.arange(params.dense_dim), ~salt)
                logit += (dense - 0.5) @ factors * (2.0 / params.dense_dim**0.5)
            columns.append(1 / (1 + np.exp(-logit)))
        return np.stack(columns, axis=1)


def _hidden_weights(keys: npt.NDArray[Any], salt: np.uint64) -> npt.NDArray[np.float64]:
    """A number of unit variance for each key, by hashing, so that no table is needed."""
    with np.errstate(over="ignore"):  # the arithmetic is modulo 2^64
        z = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + salt
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z.astype(np.float64) * 2.0**-63 - 1.0) * 3.0**0.5
