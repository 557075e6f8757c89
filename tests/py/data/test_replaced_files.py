# SPDX-License-Identifier: Apache-2.0
"""A Parquet file that is another one than when the data was opened is told, not read in part."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hugectr.base.errors import DataError
from hugectr.data.parquet import ParquetBlocks


def write(path, rows):
    table = pa.table({"label": pa.array([0.0] * rows, pa.float32()), "key": range(rows)})
    pq.write_table(table, path, row_group_size=10)


@pytest.mark.parametrize("rows", [80, 25, 20, 9])
def test_a_file_of_other_rows_is_named(tmp_path, rows):
    for name in ("a", "b"):
        write(tmp_path / f"{name}.parquet", 30)
    blocks = ParquetBlocks(["label", "key"])
    blocks.open(str(tmp_path))
    assert blocks.read(0).num_rows == 10
    write(tmp_path / "b.parquet", rows)
    with pytest.raises(DataError, match=rf"b\.parquet' has {rows} rows in .* and had 30 rows in 3"):
        blocks.read(3)
    write(tmp_path / "b.parquet", 30)
    assert blocks.read(3).num_rows == 10
    write(tmp_path / "b.parquet", rows)
    blocks.open("")  # as a source that is set again
    assert blocks.read(3).num_rows == min(rows, 10)
