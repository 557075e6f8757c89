# SPDX-License-Identifier: Apache-2.0
"""Tables beside a network: NumPy's files, a description, and a reader."""

from __future__ import annotations

import json
from pathlib import Path

from hugectr.export import numpy_reader
from hugectr.export.image import ModelImage
from hugectr.export.table_image import PADDING
from hugectr.vectors.table_files import file_stem, whole_file, write_numpy

DESCRIPTION = "tables.json"


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
    with whole_file(folder / "reader.py") as partial:
        partial.write_text(Path(numpy_reader.__file__).read_text())
