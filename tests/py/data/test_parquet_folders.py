# SPDX-License-Identifier: Apache-2.0
"""Folders as Spark, Hive and pyarrow write them, wherever a Parquet file may be named."""

import os

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from hugectr.base.errors import DataError, InvalidArgument
from hugectr.data.inspect import inspect
from hugectr.data.parquet import ParquetBlocks
from hugectr.data.parquet_files import parquet_files
from hugectr.data.schema.sources import open_source

DAYS = ("2026-11-01", "2026-11-02")


def write(path, *numbers):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"n": pa.array(numbers, pa.int64())}), path)


@pytest.fixture
def spark(tmp_path):
    """A file of Spark's: two parts, and its notes."""
    folder = tmp_path / "data" / "train.parquet"
    for part in (1, 0):
        write(folder / f"part-0000{part}-ab.c000.snappy.parquet", 2 * part, 2 * part + 1)
        (folder / f".part-0000{part}-ab.c000.snappy.parquet.crc").write_bytes(b"crc")
    write(folder / "_temporary" / "0" / "part-00002.parquet", 99)
    for name in ("_SUCCESS", "_metadata", "_common_metadata", "._SUCCESS.crc"):
        (folder / name).write_bytes(b"")
    write(folder / "_part.parquet", 98)
    return folder


@pytest.fixture
def days(tmp_path):
    """Partitions in two levels, in the order that folders of a file system need not have."""
    folder = tmp_path / "days"
    for place, (day, hour) in enumerate((d, h) for d in reversed(DAYS) for h in ("07", "12")):
        write(folder / f"day={day}" / f"hour={hour}" / "part-0.parquet", place)
    write(folder / "_day=none" / "part-0.parquet", 50)  # Spark's columns may begin so
    (folder / "_SUCCESS").write_bytes(b"")
    return folder


def read(source):
    """Numbers by the reader of training and by that of schemas, which have to agree."""
    blocks = ParquetBlocks(["n"])
    _, found = blocks.open(str(source))
    values = [n for i in range(len(found)) for n in blocks.read(i).column("n").to_pylist()]
    tables = open_source(str(source)).tables(["n"])
    assert values == [n for table in tables for n in table["n"].to_pylist()]
    assert inspect(str(source)).rows == len(values)
    return values


def test_the_folder_is_its_parts(spark):
    assert read(spark) == [0, 1, 2, 3]
    assert read(f"{spark}/") == [0, 1, 2, 3]
    assert read(f"file://{spark}") == [0, 1, 2, 3]


@pytest.mark.parametrize("pattern", ["*.parquet", "*", "**", "**/*.parquet", "*/part*", "train*/*"])
def test_a_pattern_that_matches_it(spark, pattern):
    assert read(spark.parent / pattern) == [0, 1, 2, 3]


def test_a_pattern_that_names_what_is_hidden(spark):
    assert read(spark / "_part*") == [98]
    assert read(spark / "_temporary" / "*" / "part*") == [99]
    with pytest.raises(DataError, match=r"but those that begin with _ or \."):
        read(spark / "?metadata")


def test_a_list_that_names_it(spark, tmp_path):
    write(tmp_path / "one.parquet", 7)
    listed = tmp_path / "list.txt"
    listed.write_text(f"3\n{tmp_path}/one.parquet\n{spark}\n{tmp_path}/one.parquet\n")
    assert read(listed) == [7, 0, 1, 2, 3, 7]


def test_partitions(days):
    wanted = ds.dataset(days, partitioning="hive").to_table()["n"].to_pylist()
    assert read(days) == [50, *wanted]
    assert read(f"file://{days}") == [50, *wanted]
    assert read(days / f"day={DAYS[0]}") == [2, 3]
    assert read(days / "day=*") == wanted
    assert read(days / "*" / "hour=12") == [3, 1]


def test_columns_of_partitions(days):
    with pytest.raises(DataError, match=r"no column 'hour'.*hour=12.*partitioning='hive'"):
        ParquetBlocks(["n", "hour"]).open(str(days / "*" / "hour=12"))
    with pytest.raises(DataError, match=r"no column 'day'.*day=.*partitioning='hive'"):
        open_source(str(days)).check(["day"])
    assert open_source(ds.dataset(days, partitioning="hive")).names == ["n", "day", "hour"]
    (days / "day=x").mkdir()
    pq.write_table(pa.table({"day": [1]}), days / "day=x" / "a.parquet")
    assert len(ParquetBlocks(["day"]).open(str(days / "day=x"))[1]) == 1  # the file has it


def test_other_folders_are_not_gone_into(tmp_path):
    for name in ("train", "val"):
        write(tmp_path / name / "a.parquet", 1)
    with pytest.raises(DataError, match=r"no \*\.parquet file; it has 'train', 'val': name one"):
        parquet_files(str(tmp_path))
    write(tmp_path / "b.parquet", 2)
    assert read(tmp_path) == [2]
    (tmp_path / "train" / "notes.txt").write_text("no Parquet")
    with pytest.raises(DataError, match="no readable Parquet"):
        read(tmp_path / "train" / "*")


@pytest.mark.parametrize(("name", "what"), [("_delta_log", "Delta Lake"), (".hoodie", "Hudi")])
def test_tables_of_versions_are_refused(tmp_path, name, what):
    write(tmp_path / "part-0.parquet", 1)
    (tmp_path / name).mkdir()
    with pytest.raises(DataError, match=f"table of {what}"):
        parquet_files(str(tmp_path))


def test_links_that_lead_back(tmp_path):
    (tmp_path / "day=1").symlink_to(tmp_path, target_is_directory=True)
    with pytest.raises(DataError, match="is it a loop"):
        parquet_files(str(tmp_path))


@pytest.mark.timeout(60)
def test_a_pipe_among_the_parts(spark):
    os.mkfifo(spark / "part-00009.parquet")
    for opened in (lambda: ParquetBlocks(["n"]).open(str(spark)), lambda: inspect(str(spark))):
        with pytest.raises(DataError, match=r"part-00009\.parquet' is a pipe"):
            opened()
    with pytest.raises(DataError, match=r"part-00009\.parquet' is a pipe"):
        list(open_source(str(spark)).tables(["n"]))


def test_names_that_look_like_patterns(tmp_path):
    write(tmp_path / "run[3]" / "a[1].parquet", 1)
    assert read(tmp_path / "run[3]" / "a[1].parquet") == [1]
    assert read(tmp_path / "run[3]") == [1]


def test_patterns_are_of_this_machine(spark):
    with pytest.raises(DataError, match="of a store give the folder"):
        parquet_files(f"file://{spark}/*.parquet")
    with pytest.raises(InvalidArgument, match="of a store give the folder"):
        open_source("s3://bucket/*.csv")
