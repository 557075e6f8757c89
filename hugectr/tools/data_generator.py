# SPDX-License-Identifier: Apache-2.0
"""Generated data sets, for benchmarks and first steps without data of one's own."""

from __future__ import annotations

import functools
import os
import secrets
from collections.abc import Sequence
from typing import Any

from rich.progress import track

from hugectr.base.arguments import (
    check_bool,
    check_enum,
    check_float,
    check_int,
    check_ints,
    check_str,
)
from hugectr.base.errors import rejected
from hugectr.base.worker_processes import map_in_processes
from hugectr.spec.enums import Check_t, DataReaderType_t, Distribution_t, PowerLaw_t
from hugectr.tools.generated_files import (
    begin_sets,
    finish_sets,
    plan_pieces,
    remove_parts,
    write_piece,
)
from hugectr.tools.key_distribution import power_law_alpha

_WHO = "DataGeneratorParams: "
_VALUES_ALONE = 5_000_000  # numbers that one process draws in less time than others need to start


class DataGeneratorParams:
    """What a generated data set looks like.

    Parameters
    ----------
    format : DataReaderType_t
        ``Norm`` (files and a file list), ``Raw`` or ``RawAsync`` (one file a set), ``Parquet`` (a
        folder a set, with ``_metadata.json``). The same seed and samples per file give the same
        samples in every format.
    label_dim, dense_dim : int
        Labels and dense features of a sample, uniform in [0, 1).
    num_slot : int
        Number of slots.
    i64_input_key : bool
        Keys are int64 instead of uint32.
    source, eval_source : str
        What to write. Norm: the file lists; data files go to the folders ``train`` and ``val``
        beside them. Raw: the files. Parquet: the folders, or file lists (``*.txt``) as of Norm.
    slot_size_array : list of int
        Distinct keys of each slot. Norm: slot k's keys start where those of slot k - 1 end. Raw and
        Parquet: they start at 0; give the reader the same slot_size_array, and it adds the sizes.
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
        Samples in each; for Raw, samples that are drawn together.
    num_samples, eval_num_samples : int
        Size of the single-file Raw format; not used for the others.
    float_label_dense : bool
        Raw: float32 labels and dense features. False: int32, labels 0 or 1 and dense features from
        0 to 99, which the reader turns into log(x + 1). The other formats always hold float32.
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
        self.label_dim = check_int(_WHO + "label_dim", label_dim, 1)
        self.dense_dim = check_int(_WHO + "dense_dim", dense_dim, 0)
        self.num_slot = check_int(_WHO + "num_slot", num_slot, 1)
        self.i64_input_key = check_bool(_WHO + "i64_input_key", i64_input_key)
        self.source = check_str(_WHO + "source", source, empty=False)
        self.eval_source = check_str(_WHO + "eval_source", eval_source, empty=False)
        self.slot_size_array = self._per_slot("slot_size_array", slot_size_array)
        if self.is_raw and max(self.slot_size_array, default=0) > 2**32:
            raise rejected(
                _WHO + "slot_size_array", list(slot_size_array), "at most 2^32 keys a slot for Raw"
            )
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

    @property
    def is_raw(self) -> bool:
        """Whether one Raw file a set is written."""
        return self.format in (DataReaderType_t.Raw, DataReaderType_t.RawAsync)

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

    def generate(self, progress: bool = True, processes: int | None = None) -> None:
        """Write the training and the evaluation set; files that are there are replaced.

        Parameters
        ----------
        progress : bool
            Show a progress bar.
        processes : int or None
            Processes that draw and write; None: as many as there are processors, one for little
            data. The files do not depend on it.
        """
        params = self.params
        pieces = plan_pieces(params)
        begin_sets(params)
        if processes is None:
            values = sum(piece.rows for piece in pieces) * (
                params.dense_dim + sum(params.nnz_array)
            )
            processes = min(os.cpu_count() or 1, len(pieces)) if values > _VALUES_ALONE else 1
        check_int("DataGenerator.generate: processes", processes, 1)
        write = functools.partial(write_piece, params, self._seed)
        shown = functools.partial(
            track,
            description="Generating data",
            transient=True,
            disable=not progress,
            total=len(pieces),
        )
        try:
            map_in_processes(write, pieces, processes, shown)
            finish_sets(params, pieces)
        except BaseException:
            remove_parts(params, pieces)
            raise
