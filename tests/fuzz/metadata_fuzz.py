# SPDX-License-Identifier: Apache-2.0
"""Fuzzes ``_metadata.json``: run it with ``tools/fuzz.sh metadata``.

The input is the file. It lies beside one Parquet file, ``a.parquet``; columns and blocks are asked
for as a reader of the folder does.
"""

import contextlib
import importlib
import json
import sys

with contextlib.suppress(ImportError):  # the seeds do without
    import atheris

    # Coverage is that of what is imported here.
    with atheris.instrument_imports(include=["json", "hugectr.data.parquet"]):
        importlib.import_module("hugectr.data.parquet")

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, __file__.rpartition("/")[0])
from python_target import run, scratch

from hugectr.base.errors import DataError, InvalidArgument
from hugectr.data.parquet import METADATA, ParquetBlocks, columns_of_metadata

FOLDER = scratch()
pq.write_table(pa.table({"y": [1.0], "x": [2.0], "c": [3], "d": [4]}), FOLDER / "a.parquet")


def metadata(files: list[str], conts: list[str]) -> bytes:
    """A valid file."""
    names = {"labels": ["y"], "conts": conts, "cats": ["c", "d"]}
    place = iter(range(10))
    kinds = {
        kind: [{"col_name": name, "index": next(place)} for name in columns]
        for kind, columns in names.items()
    }
    stats = [{"file_name": name, "num_rows": 1} for name in files]
    return json.dumps({"file_stats": stats, **kinds}).encode()


def target(content: bytes) -> None:
    """A file is read or refused with a DataError or InvalidArgument that can be shown."""
    (FOLDER / METADATA).write_bytes(content)
    try:
        columns = columns_of_metadata(str(FOLDER), {"first": 1, "second": 1})
        files, blocks = ParquetBlocks(columns.all).open(str(FOLDER))
        assert files
        assert all(rows > 0 for _, rows, _ in blocks)
    except (DataError, InvalidArgument) as error:
        str(error).encode()


if __name__ == "__main__":
    run(target, {"one": metadata(["a.parquet"], ["x"]), "two": metadata(["a.parquet"] * 2, [])})
