# SPDX-License-Identifier: Apache-2.0
"""Which Parquet files a source is, in which order.

A source may be a file, a folder of them, a glob pattern, a text file list, or a URL that
``pyarrow.fs`` or ``fsspec`` opens (``s3://``, ``gs://``, ``hdfs://``). A folder may be what Spark
calls a file: parts, notes beside them (``_SUCCESS``), folders of partitions (``day=1``).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import PurePath

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from hugectr.base.errors import DataError, InvalidArgument
from hugectr.data.parquet_metadata import metadata_of
from hugectr.data.patterns import is_hidden, is_pattern, matches, way_of_stores
from hugectr.data.regular_file import open_regular, read_file_list, regular_file_size

_ENDING = ".parquet"
#: Folders in folders; more is a link that leads back.
_DEEPEST = 32
#: Of tables whose folder has the files of earlier versions, too.
_VERSIONED = {"_delta_log": "Delta Lake", ".hoodie": "Hudi"}
_SHOWN = 4

_from_uri = pafs.FileSystem.from_uri


def _filesystem(source: str) -> tuple[pafs.FileSystem, str]:
    """The file system of a source and the path there."""
    if "://" not in source:
        return pafs.LocalFileSystem(), source
    try:
        found: tuple[pafs.FileSystem, str] = _from_uri(source)
        return found
    except OSError as error:  # of HDFS, where there is no libhdfs
        raise DataError(f"source {source!r} can not be opened: {error}") from error
    except pa.ArrowException:
        try:
            import fsspec  # type: ignore[import-not-found]
        except ImportError as error:
            raise InvalidArgument(
                f"source {source!r}: pyarrow has no file system for it; install fsspec and the "
                "package for this kind of URL"
            ) from error
        filesystem, path = fsspec.core.url_to_fs(source)
        return pafs.PyFileSystem(pafs.FSSpecHandler(filesystem)), path


def parquet_files(source: str) -> tuple[pafs.FileSystem, list[str], str]:
    """The Parquet files of a source in their order.

    Parameters
    ----------
    source : str
        File, folder, glob pattern, file list or URL. What a pattern matches and a list names may
        be folders too.

    Returns
    -------
    tuple of (FileSystem, list of str, str)
        File system, paths there, and the folder in which a ``_metadata.json`` would lie.

    Raises
    ------
    DataError
        When nothing is found.
    """
    filesystem, path = _filesystem(source)
    if "://" in source or os.path.isdir(path):
        found = _files_at(filesystem, path, f"source {source!r}")
        return filesystem, found, os.path.dirname(path) if found == [path] else path
    if is_pattern(path):
        several = _innermost([one.rstrip(os.sep) for one in matches(path)])
    else:
        several = [path] if _is_parquet(path) else read_file_list(path)
    found = [file for one in several for file in _files_at(filesystem, one, repr(one))]
    first = several[0]
    return filesystem, found, first if os.path.isdir(first) else os.path.dirname(first)


def _innermost(paths: Sequence[str]) -> list[str]:
    """Each once, without the folders of others: a pattern may match both."""
    folders = {str(folder) for path in paths for folder in PurePath(path).parents}
    return [path for path in dict.fromkeys(paths) if str(PurePath(path)) not in folders]


def _is_parquet(path: str) -> bool:
    with open_regular(path) as file:
        return file.read(4) == b"PAR1" or path.lower().endswith(_ENDING)


def _files_at(filesystem: pafs.FileSystem, path: str, what: str) -> list[str]:
    """A file itself, or those of a folder."""
    try:
        info = filesystem.get_file_info(path)
        if info.type == pafs.FileType.Directory:
            return _files_of_folder(filesystem, path, what)
    except DataError:
        raise
    except (OSError, pa.ArrowException, ValueError) as error:
        raise DataError(f"{what} can not be looked at: {error}") from error
    if info.type == pafs.FileType.NotFound:
        hint = way_of_stores(path) if "://" in what else ""
        raise DataError(f"{what} does not exist{hint}")
    return [path]


def _files_of_folder(
    filesystem: pafs.FileSystem, folder: str, what: str, depth: int = 0
) -> list[str]:
    """What ``_metadata.json`` says, or ``*.parquet`` in the order of the paths.

    Folders of partitions (``name=value``) and folders that are called like a file are gone into;
    no others are, for they may have other data, such as those to evaluate on.
    """
    named = metadata_of(filesystem, folder)
    if named:
        return [f"{folder}/{name}" for name in named["file_names"]]
    if depth > _DEEPEST:
        raise DataError(f"{what}: {folder!r} lies in more than {_DEEPEST} folders; is it a loop?")
    found: list[str] = []
    others: list[str] = []
    for entry in filesystem.get_file_info(pafs.FileSelector(folder)):
        name = entry.base_name
        is_folder = entry.type == pafs.FileType.Directory
        if is_folder and name in _VERSIONED:
            raise DataError(
                f"{what}: {folder!r} is a table of {_VERSIONED[name]}, whose files are of earlier "
                "versions too: write the version that you want as Parquet, or give a file list of "
                "its files"
            )
        if is_hidden(name):
            continue
        of_data = name.lower().endswith(_ENDING)
        if is_folder and (of_data or _partition(name)):
            found += _files_of_folder(filesystem, entry.path, what, depth + 1)
        elif of_data:
            found.append(entry.path)
        else:
            others.append(name)
    if not found and depth == 0:
        has = ", ".join(map(repr, sorted(others)[:_SHOWN]))
        more = ", ..." if len(others) > _SHOWN else ""
        hint = f"; it has {has}{more}: name one of them, or a pattern" if others else ""
        raise DataError(f"{what}: the folder has no *.parquet file{hint}")
    return sorted(found)


def _partition(name: str) -> str:
    """The column that a folder such as ``day=2026-11-01`` is called by; else empty."""
    column, sign, _ = name.partition("=")
    return column if sign else ""


def partitions_of(path: str) -> dict[str, str]:
    """Columns that the names of a file's folders have values of, and these folders' names."""
    folders = path.split("/")[:-1]
    return {_partition(name): name for name in folders if _partition(name)}


def way_of_partitions(folders: Sequence[str]) -> str:
    """How to have the columns of which folders have the values."""
    return (
        f"what the names of folders say ({', '.join(folders)}) is not read: give the table that "
        "pyarrow.dataset.dataset(FOLDER, partitioning='hive') reads"
    )


def open_parquet(filesystem: pafs.FileSystem, path: str, **settings: int | bool) -> pq.ParquetFile:
    """Open a file; page checksums are verified where there are some.

    Raises
    ------
    DataError
        When it is no regular file, or not Parquet.
    """
    if isinstance(filesystem, pafs.LocalFileSystem) and regular_file_size(path) == 0:
        raise DataError(f"{path!r} is empty, and no Parquet file")
    try:
        return pq.ParquetFile(
            filesystem.open_input_file(path), page_checksum_verification=True, **settings
        )
    except (OSError, pa.ArrowException, ValueError) as error:
        raise DataError(f"{path!r} is no readable Parquet file: {error}") from error
