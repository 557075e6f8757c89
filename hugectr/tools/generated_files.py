# SPDX-License-Identifier: Apache-2.0
"""Where generated samples go: the files of each format."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hugectr.base.errors import DataError, InvalidArgument, rejected
from hugectr.base.places import errors_of, file_place, folder_place, whole_place
from hugectr.data.norm import write_file_list, write_norm
from hugectr.data.parquet import ROW_GROUP_ROWS
from hugectr.data.parquet_metadata import METADATA, write_metadata
from hugectr.data.regular_file import open_regular, read_file_list
from hugectr.spec.enums import DataReaderType_t
from hugectr.tools.generated_samples import Piece, Samples, draw

if TYPE_CHECKING:
    from hugectr.tools.data_generator import DataGeneratorParams

#: Parquet files as they are named here.
_GENERATED = "gen_*.parquet"
#: What a Raw file is called until it is whole: its size would not tell.
_PART = ".part"


def _sets(params: DataGeneratorParams) -> list[tuple[int, str, str, int, int]]:
    """Number, folder, source, files and samples of both sets."""
    return [
        (0, "train", params.source, params.num_files, params.num_samples),
        (1, "val", params.eval_source, params.eval_num_files, params.eval_num_samples),
    ]


def _is_listed(params: DataGeneratorParams, source: str) -> bool:
    """Whether a source is a file list, with the data in a folder beside it."""
    named = params.format is DataReaderType_t.Parquet and source.endswith(".txt")
    return named or params.format is DataReaderType_t.Norm


def _place(params: DataGeneratorParams, folder: str, source: str) -> str:
    """The folder of a set's data files (not of Raw)."""
    return os.path.join(os.path.dirname(source), folder) if _is_listed(params, source) else source


def plan_pieces(params: DataGeneratorParams) -> list[Piece]:
    """What is drawn together and written by one process."""
    pieces = []
    each = params.num_samples_per_file
    for set_id, folder, source, files, samples in _sets(params):
        if params.is_raw:
            for index, first in enumerate(range(0, samples, each)):
                rows = min(each, samples - first)
                pieces.append(Piece(set_id, index, rows, source + _PART, first))
            continue
        norm = params.format is DataReaderType_t.Norm
        place = _place(params, folder, source)
        # Readers take the files of a folder in the order of their names.
        width = 1 if norm else len(str(files - 1))
        for index in range(files):
            path = os.path.join(place, f"gen_{index:0{width}}{_ending(params)}")
            pieces.append(Piece(set_id, index, each, path))
    return pieces


def _ending(params: DataGeneratorParams) -> str:
    return ".data" if params.format is DataReaderType_t.Norm else ".parquet"


def _refuse_other_parquet(params: DataGeneratorParams) -> None:
    """Parquet data is all the files of a folder: none of somebody else's may be among them."""
    for _, folder, source, _, _ in _sets(params):
        if params.format is not DataReaderType_t.Parquet:
            continue
        place = Path(_place(params, folder, source))
        others = sorted(set(place.glob("*.parquet")) - set(place.glob(_GENERATED)))
        if others:
            raise InvalidArgument(
                f"DataGenerator: {others[0]} was not generated, and would be read as part of the "
                f"data in {place}: give another folder, or move it"
            )


def _refuse_other_lists(params: DataGeneratorParams) -> None:
    """Data of a list lie in ``train`` and ``val`` beside it: no other list may have its own there.

    It would go on naming the files, which have other samples then. Those of the other format have
    other names.
    """
    ending = _ending(params)
    listed = [one for one in _sets(params) if _is_listed(params, one[2])]
    own = {os.path.realpath(source) for _, _, source, _, _ in listed}
    for _, folder, source, _, _ in listed:
        place = Path(_place(params, folder, source))
        if not any(place.glob(f"gen_*{ending}")):
            continue
        for path in sorted(place.absolute().parent.iterdir()):
            if os.path.realpath(path) not in own and _lists_files_of(path, place, ending):
                raise InvalidArgument(
                    f"DataGenerator: {path} lists files in {place}, which {source!r} would replace "
                    "by its own: give a list in another folder, or remove that one"
                )


def _lists_files_of(path: Path, place: Path, ending: str) -> bool:
    """Whether a file is a list with files of a folder in it that are called so."""
    try:
        with open_regular(path) as file:
            if not file.read(1).isdigit():  # as lists begin
                return False
        names = read_file_list(path)
    except DataError:
        return False
    there = os.path.realpath(place)
    return any(
        name.endswith(ending) and os.path.realpath(os.path.dirname(name)) == there for name in names
    )


def begin_sets(params: DataGeneratorParams) -> None:
    """Make folders, and Raw files of their final size, for writers at any offset."""
    for set_id, folder, source, _, _ in _sets(params):
        where = _where(set_id)
        if params.is_raw or _is_listed(params, source):
            place = file_place(where, source)
            if place.exists() and not place.is_file():
                raise rejected(where, source, "the path of a file, no device or pipe")
        if not params.is_raw:
            whole_place(where, _place(params, folder, source))
    _refuse_other_parquet(params)
    _refuse_other_lists(params)
    for set_id, folder, source, _, samples in _sets(params):
        if params.is_raw:
            with errors_of(source), open(source + _PART, "wb") as file:
                file.truncate(samples * _raw_words(params) * 4)
            continue
        if _is_listed(params, source):  # the files of an earlier one are about to go
            Path(source).unlink(missing_ok=True)
        place = folder_place(_where(set_id), _place(params, folder, source))
        if params.format is DataReaderType_t.Parquet:
            for old in place.glob(_GENERATED):
                old.unlink()
            (place / METADATA).unlink(missing_ok=True)


def _where(set_id: int) -> str:
    return f"DataGeneratorParams: {'eval_source' if set_id else 'source'}"


def write_piece(params: DataGeneratorParams, seed: int, piece: Piece) -> None:
    """Draw a piece and write it."""
    samples = draw(params, seed, piece)
    with errors_of(piece.path):
        if params.format is DataReaderType_t.Norm:
            _write_norm(params, samples, piece)
        elif params.format is DataReaderType_t.Parquet:
            _write_parquet(params, samples, piece)
        else:
            _write_raw(params, samples, piece)


def remove_parts(params: DataGeneratorParams, pieces: list[Piece]) -> None:
    """What is half written, and would have the size of a whole file."""
    for path in {piece.path for piece in pieces}:
        half = path if params.is_raw else f"{path}.tmp"
        Path(half).unlink(missing_ok=True)


def finish_sets(params: DataGeneratorParams, pieces: list[Piece]) -> None:
    """File lists and metadata come last: where there is one, all its files are whole."""
    for set_id, folder, source, _, _ in _sets(params):
        if params.is_raw:
            os.replace(source + _PART, source)
        if params.format is DataReaderType_t.Parquet:
            write_metadata(_place(params, folder, source), *column_names(params))
        if _is_listed(params, source):
            write_file_list(Path(source), [p.path for p in pieces if p.set_id == set_id])


def column_names(params: DataGeneratorParams) -> tuple[list[str], list[str], list[str]]:
    """Parquet columns of labels, dense features and slots."""
    return (
        [f"label{i}" for i in range(params.label_dim)],
        [f"dense{i}" for i in range(params.dense_dim)],
        [f"slot{i}" for i in range(params.num_slot)],
    )


def _raw_words(params: DataGeneratorParams) -> int:
    return params.label_dim + params.dense_dim + sum(params.nnz_array)


def _write_norm(params: DataGeneratorParams, samples: Samples, piece: Piece) -> None:
    slots, low = [], 0
    for keys, size in zip(samples.keys, params.slot_size_array, strict=True):
        n, nnz = keys.shape
        slots.append(((keys + low).reshape(-1), np.arange(0, n * nnz + 1, nnz)))
        low += size
    write_norm(
        piece.path, samples.label, samples.dense, slots, params.check_type, params.i64_input_key
    )


def _write_raw(params: DataGeneratorParams, samples: Samples, piece: Piece) -> None:
    words = np.empty((piece.rows, _raw_words(params)), "<u4")
    at = 0
    for values in (samples.label, samples.dense):
        kind = "<f4" if params.float_label_dense else "<i4"
        words[:, at : at + values.shape[1]] = values.astype(kind).view("<u4")
        at += values.shape[1]
    for keys in samples.keys:
        words[:, at : at + keys.shape[1]] = keys
        at += keys.shape[1]
    with open(piece.path, "r+b") as file:
        file.seek(piece.first_row * words.shape[1] * 4)
        file.write(words.data)  # whose error says what is wrong, as that of tofile() does not


def _write_parquet(params: DataGeneratorParams, samples: Samples, piece: Piece) -> None:
    labels, dense, slots = column_names(params)
    columns: dict[str, pa.Array] = {}
    for names, values in ((labels, samples.label), (dense, samples.dense)):
        for i, name in enumerate(names):
            columns[name] = pa.array(np.ascontiguousarray(values[:, i]))
    key_type = pa.int64() if params.i64_input_key else pa.uint32()
    for name, keys in zip(slots, samples.keys, strict=True):
        flat = pa.array(keys.reshape(-1)).cast(key_type)
        n, nnz = keys.shape
        if nnz > 1:
            offsets = pa.array(np.arange(0, n * nnz + 1, nnz, dtype=np.int32))
            columns[name] = pa.ListArray.from_arrays(offsets, flat)
        else:
            columns[name] = flat
    temporary = piece.path + ".tmp"
    pq.write_table(
        pa.table(columns),
        temporary,
        compression="snappy",
        row_group_size=ROW_GROUP_ROWS,
        write_page_checksum=True,
    )
    os.replace(temporary, piece.path)
