# SPDX-License-Identifier: Apache-2.0
"""``_metadata.json`` beside Parquet files, the original's: their order, which column is what."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
import pyarrow.parquet as pq

from hugectr.base.errors import DataError
from hugectr.base.places import folder_place
from hugectr.data.regular_file import MOST_TEXT_BYTES, read_text

METADATA = "_metadata.json"


def metadata_of(filesystem: pafs.FileSystem, folder: str) -> dict[str, list[str]] | None:
    """Names in ``_metadata.json``: files, and columns of each kind by ascending index."""
    path = f"{folder}/{METADATA}" if folder else METADATA
    if filesystem.get_file_info(path).type != pafs.FileType.File:
        return None
    try:
        if isinstance(filesystem, pafs.LocalFileSystem):
            text = read_text(path)
        else:
            with filesystem.open_input_stream(path) as stream:
                text = stream.read(MOST_TEXT_BYTES).decode("utf-8-sig")
        fields = json.loads(text)
        names = {"file_names": [str(entry["file_name"]) for entry in fields["file_stats"]]}
        places: set[int] = set()
        for kind in ("labels", "conts", "cats"):
            for column in fields[kind]:
                place, name = column["index"], column["col_name"]
                if type(place) is not int or place < 0 or place in places:
                    raise ValueError(
                        f"index {place!r} of {name!r} is no number of its own from 0 on"
                    )
                if not isinstance(name, str) or not name or "\0" in name:
                    raise ValueError(f"col_name {name!r} is no name")
                name.encode()  # half a surrogate pair is no name either
                places.add(place)
            columns = sorted(fields[kind], key=lambda c: c["index"])
            names[kind] = [c["col_name"] for c in columns]
        for name in names["file_names"]:
            name.encode()
    except (ValueError, KeyError, TypeError, RecursionError, OSError) as error:
        raise DataError(
            f"{path!r} is damaged ({type(error).__name__}: {error}); it needs file_stats, labels, "
            "conts and cats as in the documentation. Restore it, or remove it and pass columns="
        ) from error
    if not names["file_names"]:
        raise DataError(f"{path!r} lists no files; remove it, or write it anew")
    for name in names["file_names"]:
        if not name or "/" in name or name in (".", ".."):
            raise DataError(f"{path!r}: file_name {name!r} is not a plain file name")
    return names


def columns_of_kinds(
    filesystem: pafs.FileSystem, folder: str
) -> tuple[list[str], list[str], list[str]] | None:
    """Labels, dense and categorical columns of a folder's ``_metadata.json``, None without one."""
    names = metadata_of(filesystem, folder)
    return (names["labels"], names["conts"], names["cats"]) if names else None


def write_metadata(
    folder: str | os.PathLike[str],
    labels: Sequence[str],
    dense: Sequence[str],
    slots: Sequence[str],
) -> Path:
    """Write ``_metadata.json`` for the Parquet files of a folder.

    Parameters
    ----------
    folder : path-like
        Where the ``*.parquet`` files lie.
    labels, dense, slots : sequence of str
        Column names of each kind, in order.

    Returns
    -------
    Path
        The file, written atomically.
    """
    place = folder_place("write_metadata: folder", folder)
    stats = [
        {"file_name": path.name, "num_rows": pq.read_metadata(path).num_rows}
        for path in sorted(place.glob("*.parquet"))
    ]
    order = {name: i for i, name in enumerate([*labels, *dense, *slots])}
    kinds = {"labels": labels, "conts": dense, "cats": slots}
    fields: dict[str, Any] = {"file_stats": stats}
    for kind, names in kinds.items():
        fields[kind] = [{"col_name": name, "index": order[name]} for name in names]
    path = place / METADATA
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(fields, indent=1), encoding="utf-8")
    temporary.replace(path)
    return path
