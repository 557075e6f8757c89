# SPDX-License-Identifier: Apache-2.0
"""Tables beside a network: NumPy's files, a description, and a reader."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from hugectr.base.regular_file import read_bounded
from hugectr.base.replaced import refuse_other_folder
from hugectr.export import numpy_reader
from hugectr.export.image import ModelImage
from hugectr.export.table_image import PADDING
from hugectr.vectors.table_files import file_stem, whole_file, write_numpy

DESCRIPTION = "tables.json"
_READER = "reader.py"
_PARTS = ("key", "slot", "vector")
#: A description is longer for each table: of many it has some hundred KiB.
_MOST_BYTES = 64 << 20


def refuse_other_export(where: str, folder: Path, network: Collection[str]) -> None:
    """Whether a folder may be replaced: it is not there, empty, or an export of this kind alone.

    Parameters
    ----------
    where : str
        The call, for complaints.
    folder : Path
    network : collection of str
        Files of the network in an export of this kind.

    Raises
    ------
    InvalidArgument
        When something else is there.
    """

    def names_of(folder: Path) -> set[str]:
        if not all((folder / name).is_file() for name in (*network, _READER)):
            return set()
        described = json.loads(read_bounded(folder / DESCRIPTION, _MOST_BYTES))
        int(described["version"])
        stems = [str(table["file"]) for table in described["tables"].values()]
        arrays = {f"{stem}.{part}.npy" for stem in stems for part in _PARTS}
        return {DESCRIPTION, _READER, *network} | arrays

    refuse_other_folder(where, folder, "earlier export of the same kind", names_of)


def write_tables_beside(folder: Path, image: ModelImage) -> None:
    """Write ``<table>.<part>.npy``, ``tables.json`` and ``reader.py`` into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    described = {}
    for table in image.tables:
        write_numpy(folder, table.rows)
        described[table.name] = {
            "file": file_stem(table.name),
            "inputs": [{"name": one.name, "slots": one.slots} for one in table.inputs],
            "slots": table.slots,
            "size": table.size,
            "combiner": "mean" if table.mean else "sum",
            "rows": table.rows.count(),
            "crc32": {
                part: numpy_reader.crc32_of(folder / f"{file_stem(table.name)}.{part}.npy")
                for part in table.rows.parts
            },
            "rows_of_slots": table.has_slots,
            "positions": list(table.positions),
        }
    lengths = {name: keys.name for name, keys in image.lengths.items()}
    whole = {"version": 4, "padding": PADDING, "tables": described, "lengths": lengths}
    text = json.dumps({**whole, "sha256": numpy_reader.checksum(whole)}, indent=2)
    with whole_file(folder / DESCRIPTION) as partial:
        partial.write_text(text)
    with whole_file(folder / _READER) as partial:
        partial.write_text(Path(numpy_reader.__file__).read_text())
