#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make the Parquet files of the demo from the raw Adult files of the UCI repository.

    python scripts/make_adult_parquet.py FOLDER_WITH_adult.data_AND_adult.test [OUTPUT_FOLDER]

Rows keep their order. A ``?`` (missing) becomes null, the dot behind the labels of the test file is
dropped, and the label is 1 for an income above 50K.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

NUMERIC = {"age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week"}
COLUMNS = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
]
EXPECTED_ROWS = {"adult.data": 32561, "adult.test": 16281}


def read_raw(path: Path) -> pa.Table:
    """Read one raw file into a table of the 14 columns and ``label``."""
    rows: list[list[str]] = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if not line.strip() or line.startswith("|"):  # the test file opens with a comment
            continue
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != len(COLUMNS) + 1:
            raise SystemExit(f"{path}:{number}: {len(fields)} fields, expected {len(COLUMNS) + 1}")
        rows.append(fields)
    expected = EXPECTED_ROWS[path.name]
    if len(rows) != expected:
        raise SystemExit(f"{path}: {len(rows)} rows, expected {expected}")
    arrays: dict[str, pa.Array] = {}
    for index, name in enumerate(COLUMNS):
        values = [row[index] for row in rows]
        if name in NUMERIC:
            arrays[name] = pa.array([int(v) for v in values], pa.int32())
        else:
            arrays[name] = pa.array([None if v == "?" else v for v in values]).dictionary_encode()
    labels = [row[-1].rstrip(".") for row in rows]
    unknown = set(labels) - {"<=50K", ">50K"}
    if unknown:
        raise SystemExit(f"{path}: unknown labels {sorted(unknown)}")
    arrays["label"] = pa.array([int(v == ">50K") for v in labels], pa.int8())
    return pa.table(arrays)


def main(arguments: list[str]) -> int:
    """Convert both files; return the exit code."""
    if len(arguments) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    default = Path(__file__).resolve().parent.parent / "hugectr" / "data"
    source, target = Path(arguments[0]), Path(arguments[1]) if len(arguments) == 2 else default
    for raw, name in (("adult.data", "adult_train"), ("adult.test", "adult_test")):
        out = target / f"{name}.parquet"
        pq.write_table(
            read_raw(source / raw), out, compression="zstd", compression_level=19, version="2.6"
        )
        print(f"{out}: {EXPECTED_ROWS[raw]} rows, {out.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
