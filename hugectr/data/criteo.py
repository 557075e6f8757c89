# SPDX-License-Identifier: Apache-2.0
"""From the public Criteo files to Parquet, Raw or Norm, in bounded memory and resumably.

Two passes over the lines, in parts that processes work on side by side: the first counts categories
(or, when they are hashed, only rows), the second encodes and writes. What is done is remembered in
the folder ``.progress`` of the output, so that an interrupted conversion goes on where it stopped.
"""

from __future__ import annotations

import functools
import os
import shutil
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.progress import track

from hugectr.base.arguments import check_choice, check_int
from hugectr.base.errors import DataError, InvalidArgument, rejected
from hugectr.base.places import folder_place
from hugectr.base.worker_processes import map_in_processes
from hugectr.data.criteo_categories import CountTotal, Encoding, count
from hugectr.data.criteo_files import InputFile
from hugectr.data.criteo_kept import synced, write_json
from hugectr.data.criteo_lines import CATEGORIES, INTEGERS, Lines, Part, cut, parse, read_part
from hugectr.data.criteo_progress import Counted, Progress
from hugectr.data.norm import write_file_list, write_norm
from hugectr.data.parquet import ROW_GROUP_ROWS
from hugectr.data.parquet_metadata import write_metadata

T = TypeVar("T")
SAMPLE_WORDS = 1 + INTEGERS + CATEGORIES
FORMATS = ("parquet", "raw", "norm")
DENSE = [f"I{i + 1}" for i in range(INTEGERS)]
SLOTS = [f"C{i + 1}" for i in range(CATEGORIES)]


@dataclass(frozen=True)
class Settings:
    """What decides the content of the output; a resumed conversion must have the same."""

    train: tuple[str, ...]
    eval: tuple[str, ...]
    format: str
    min_count: int
    hash_size: int
    skip_bad: bool
    part_bytes: int


@dataclass(frozen=True)
class Converted:
    """What :func:`convert` wrote.

    Attributes
    ----------
    source, eval_source : str
        For DataReaderParams; empty when there was no such input.
    slot_size_array : list of int
        Keys of each category column; also in ``slot_sizes.json``.
    rows, eval_rows, dropped : int
        Samples written, and damaged lines left out.
    """

    source: str
    eval_source: str
    slot_size_array: list[int]
    rows: int
    eval_rows: int
    dropped: int


def convert(
    train: Sequence[str],
    out: str | os.PathLike[str],
    *,
    evaluation: Sequence[str] = (),
    format: str = "parquet",
    min_count: int = 2,
    hash_size: int = 0,
    skip_bad: bool = False,
    processes: int | None = None,
    progress: bool = True,
    part_bytes: int = 64 << 20,
) -> Converted:
    """Convert Criteo's tab-separated files.

    Parameters
    ----------
    train, evaluation : sequence of path
        Files of 40 fields a line: label, 13 integers, 26 hexadecimal categories; any field but the
        label may be empty. Keys are made from the training files alone.
    out : path
        Folder to write to.
    format : {"parquet", "raw", "norm"}
    min_count : int
        Categories that come less often in the training files share key 0 with the missing ones.
    hash_size : int
        Instead of counting: keys of each column by hashing to so many; 0: count.
    skip_bad : bool
        Leave damaged lines out and count them; else they are a DataError.
    processes : int or None
        None: as many as there are processors.
    progress : bool
        Show progress bars.
    part_bytes : int
        Bytes of a part; memory grows with it and with the processes, not with the files.

    Returns
    -------
    Converted

    Notes
    -----
    Dense features are log(x + 1) with negative and missing values as 0, as float32. ``slot_sizes``
    are written to ``slot_sizes.json``; Raw and Parquet keys start at 0 in every column (give the
    reader the sizes), Norm keys have the sizes of the columns before added.
    """
    check_choice("criteo: format", format, FORMATS)
    check_int("criteo: min_count", min_count, 1)
    if hash_size:
        check_int("criteo: hash_size", hash_size, 2, 1 << 32)
    if not train:
        raise rejected("criteo: train", list(train), "at least one file")
    settings = Settings(
        tuple(os.path.abspath(p) for p in train),
        tuple(os.path.abspath(p) for p in evaluation),
        format,
        min_count,
        hash_size,
        skip_bad,
        part_bytes,
    )
    folder = folder_place("criteo: out", out)
    done = Progress.open(folder, asdict(settings))
    files = [InputFile.of(path) for path in [*train, *evaluation]]
    of_train, of_eval = files[: len(train)], files[len(train) :]
    parts = [*cut("train", of_train, part_bytes), *cut("eval", of_eval, part_bytes)]
    for set_name, index in done.stale_parts(files):
        _part_path(folder, set_name, index, format).unlink(missing_ok=True)
    done.begin(files, parts)
    if processes is None:
        processes = min(os.cpu_count() or 1, max(1, len(parts)))
    run = functools.partial(_run_all, processes=processes, progress=progress)

    counted = run(functools.partial(_count_part, settings, done), parts, "Counting")
    rows = [found.rows for found in counted]
    encoding = _encoding(settings, done, parts)
    first_rows = _first_rows(parts, rows)
    totals = {name: _total(parts, rows, name) for name in ("train", "eval")}
    if format == "raw":
        for name, total in totals.items():
            if total and _make_raw_file(folder / f"{name}.bin", total):
                done.forget_written(name)
    if format == "parquet":
        _clear_sets(folder, parts, done)
    write = functools.partial(_write_part, settings, done, folder)
    run(write, list(zip(parts, first_rows, counted, strict=True)), "Writing")
    dropped = sum(found.dropped for found in counted)
    converted = _finish(settings, folder, parts, encoding, totals, dropped)
    shutil.rmtree(done.state)
    return converted


def _run_all(
    work: Callable[[Any], T], items: Sequence[Any], title: str, *, processes: int, progress: bool
) -> list[T]:
    def shown(results: Iterable[T]) -> Iterable[T]:
        return track(results, title, total=len(items), transient=True, disable=not progress)

    return map_in_processes(work, items, processes, shown)


def _count_part(settings: Settings, done: Progress, part: Part) -> Counted:
    """Count rows, damaged lines and categories of a part, unless that was done."""
    found = done.counted(part)
    if found:
        return found
    text, offset = read_part(part)
    lines, dropped = parse(text, part.path, offset, settings.skip_bad) if text else (None, 0)
    counted = Counted(len(lines.label) if lines else 0, dropped, zlib.crc32(text))
    wanted = part.set_name == "train" and not settings.hash_size
    done.keep(part, counted, count(lines) if lines and wanted else [])
    return counted


def _encoding(settings: Settings, done: Progress, parts: list[Part]) -> Encoding:
    if done.encoding.exists():
        return Encoding.load(done.encoding)
    if settings.hash_size:
        encoding = Encoding.by_hash(settings.hash_size)
    else:
        total = CountTotal()
        for part in parts:
            if part.set_name == "train":
                total.add(done.categories(part))
        encoding = Encoding.by_frequency(total.result(), settings.min_count)
    encoding.save(done.encoding)
    return encoding


def _first_rows(parts: list[Part], rows: list[int]) -> list[int]:
    """Row of its set that each part begins with."""
    seen = {"train": 0, "eval": 0}
    first = []
    for part, n in zip(parts, rows, strict=True):
        first.append(seen[part.set_name])
        seen[part.set_name] += n
    return first


def _total(parts: list[Part], rows: list[int], name: str) -> int:
    return sum(n for part, n in zip(parts, rows, strict=True) if part.set_name == name)


def _make_raw_file(path: Path, rows: int) -> bool:
    """Make room for all rows; whether what parts have written before an interruption is lost."""
    wanted = rows * SAMPLE_WORDS * 4
    with open(path, "ab") as file:  # keeps it
        lost = os.fstat(file.fileno()).st_size != wanted
        file.truncate(wanted)
    return lost


def dense_features(lines: Lines) -> Any:
    """log(x + 1) of the integers, missing and negative ones as 0: (n, 13) float32."""
    return np.log1p(np.maximum(lines.integers, 0)).astype(np.float32)


def _clear_sets(folder: Path, parts: list[Part], done: Progress) -> None:
    """Remove what an earlier conversion left: readers take all Parquet files of a folder.

    Raises
    ------
    InvalidArgument
        When there are files that no conversion has written; nothing is removed then.
    """
    of_now = {
        _part_path(folder, part.set_name, part.index, "parquet")
        for part in parts
        if done.is_written(part)
    }
    places = [folder / name for name in ("train", "eval")]
    for place in places:
        others = sorted(set(place.glob("*.parquet")) - set(place.glob("part-*.parquet")))
        if others:
            raise InvalidArgument(
                f"criteo: {others[0]} is of no conversion, and would be read as part of the data "
                f"in {place}: give another folder, or move it"
            )
    for place in places:
        for old in {*place.glob("part-*.parquet"), *place.glob("_metadata.json")} - of_now:
            old.unlink()


def _write_part(
    settings: Settings, done: Progress, folder: Path, item: tuple[Part, int, Counted]
) -> None:
    part, first_row, counted = item
    path = _part_path(folder, part.set_name, part.index, settings.format)
    if done.is_written(part) and (settings.format == "raw" or not counted.rows or path.exists()):
        return
    text, offset = read_part(part)
    lines = parse(text, part.path, offset, settings.skip_bad)[0] if text else None
    if zlib.crc32(text) != counted.crc32 or (len(lines.label) if lines else 0) != counted.rows:
        raise DataError(
            f"{part.path}: bytes {part.begin} to {part.end} are not those that were counted; "
            f"remove {done.state} to start over"
        )
    if lines and counted.rows:
        encoding = Encoding.load(done.encoding)
        _write(settings.format, folder, part, first_row, lines, encoding)
    done.mark_written(part)


def _part_path(folder: Path, set_name: str, index: int, format: str) -> Path:
    ending = "data" if format == "norm" else "parquet"
    return folder / set_name / f"part-{index:06d}.{ending}"


def _write(
    format: str, folder: Path, part: Part, first_row: int, lines: Lines, encoding: Encoding
) -> None:
    keys, dense = encoding.encode(lines), dense_features(lines)
    if format == "raw":
        words = np.empty((len(keys), SAMPLE_WORDS), "<u4")
        words[:, 0] = lines.label.view(np.uint32)
        words[:, 1 : 1 + INTEGERS] = dense.view(np.uint32)
        words[:, 1 + INTEGERS :] = keys
        with open(folder / f"{part.set_name}.bin", "r+b") as file:
            file.seek(first_row * SAMPLE_WORDS * 4)
            words.tofile(file)
        synced(folder / f"{part.set_name}.bin")
        return
    path = _part_path(folder, part.set_name, part.index, format)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    if format == "parquet":
        columns = {"label": pa.array(lines.label)}
        columns |= {name: pa.array(dense[:, i].copy()) for i, name in enumerate(DENSE)}
        columns |= {name: pa.array(keys[:, i].copy()) for i, name in enumerate(SLOTS)}
        pq.write_table(
            pa.table(columns),
            temporary,
            compression="snappy",
            row_group_size=ROW_GROUP_ROWS,
            write_page_checksum=True,
        )
    else:
        offsets = np.concatenate([[0], np.cumsum(encoding.slot_sizes[:-1])])
        write_norm(temporary, lines.label[:, None], dense, keys + offsets, "Sum", i64=True)
    synced(temporary)
    temporary.replace(path)


def _finish(
    settings: Settings,
    folder: Path,
    parts: list[Part],
    encoding: Encoding,
    totals: dict[str, int],
    dropped: int,
) -> Converted:
    """File lists, metadata and slot sizes: they come when everything they speak of is whole."""
    sources = {}
    for name in ("train", "eval"):
        if totals[name] == 0:
            sources[name] = ""
            ending = {"raw": "bin", "norm": "txt"}.get(settings.format)
            if ending:  # of an earlier conversion, with the keys of its training files
                (folder / f"{name}.{ending}").unlink(missing_ok=True)
        elif settings.format == "raw":
            sources[name] = str(folder / f"{name}.bin")
        elif settings.format == "parquet":
            write_metadata(folder / name, ["label"], DENSE, SLOTS)
            sources[name] = str(folder / name)
        else:
            paths = [_part_path(folder, name, p.index, "norm") for p in parts if p.set_name == name]
            sources[name] = str(folder / f"{name}.txt")
            write_file_list(Path(sources[name]), [str(p) for p in paths if p.exists()])
    report = {
        "slot_size_array": encoding.slot_sizes,
        "rows": totals["train"],
        "eval_rows": totals["eval"],
        "dropped": dropped,
    }
    write_json(folder / "slot_sizes.json", report)
    return Converted(
        sources["train"],
        sources["eval"],
        encoding.slot_sizes,
        totals["train"],
        totals["eval"],
        dropped,
    )
