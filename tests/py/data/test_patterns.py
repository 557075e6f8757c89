# SPDX-License-Identifier: Apache-2.0
"""Patterns stand for files wherever data is named, or are refused with what to give."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from oracle.small_net import DENSE, SIZES, build

from hugectr.base.errors import DataError, InvalidArgument
from hugectr.data import Schema
from hugectr.data.file_digest import digest_of_files
from hugectr.data.inspect import inspect
from hugectr.data.inspect_columns import RawShape
from hugectr.data.norm import write_norm
from hugectr.data.patterns import matches, raw_paths
from hugectr.data.schema.sources import open_source
from hugectr.spec.enums import DataReaderType_t

WORDS = 1 + DENSE + len(SIZES)


def rows_of(source):
    tables = open_source(source).tables(["c"])
    return [str(value) for table in tables for value in table["c"].to_pylist()]


def test_text(tmp_path):
    (tmp_path / "q2.csv").write_text("c,d\n3,4\n")
    (tmp_path / "q1.csv").write_text("d,c\n1,2\n")
    (tmp_path / "_q0.csv").write_text("c,d\n9,9\n")
    with gzip.open(tmp_path / "q3.csv.gz", "wt") as file:
        file.write("c,d\n5,6\n")
    (tmp_path / "q4.jsonl").write_text(json.dumps({"c": 7}) + "\n")
    pq.write_table(pa.table({"c": [8]}), tmp_path / "q5.parquet")
    assert rows_of(str(tmp_path / "q*.csv")) == ["2", "3"]
    assert rows_of(tmp_path / "q?.csv*") == ["2", "3", "5"]
    assert rows_of(tmp_path / "*") == ["2", "3", "5", "7", "8"]
    assert rows_of([tmp_path / "q2.csv", tmp_path / "q[13].*"]) == ["3", "2", "5"]
    with pytest.raises(DataError, match="no file matches"):
        open_source(str(tmp_path / "r*.csv"))
    Schema.infer(str(tmp_path / "q*.csv"))


def test_a_folder_of_text_says_what_to_give(tmp_path):
    (tmp_path / "out.csv").mkdir()
    (tmp_path / "out.csv" / "part-0.csv").write_text("c\n1\n")
    with pytest.raises(DataError, match=r"is a folder: give its files.*out\.csv/\*\.csv'"):
        open_source(str(tmp_path / "out.csv"))
    assert rows_of(tmp_path / "out.csv" / "*.csv") == ["1"]


@pytest.fixture
def raw(tmp_path):
    """Files of 96 and of 192 samples, whose keys say which is which."""
    for name, samples in (("a1.bin", 96), ("a2.bin", 192), ("_SUCCESS", 0)):
        words = np.zeros((samples, WORDS), "<u4")
        words[:, 1 + DENSE :] = samples // 96
        words.tofile(tmp_path / name)
    return tmp_path


def test_raw(raw):
    one, two = str(raw / "a1.bin"), str(raw / "a2.bin")
    assert raw_paths(f"{two}\n{raw}/a*.bin") == [two, one, two]
    assert raw_paths(str(raw / "*")) == [one, two]
    shape = RawShape(1, DENSE, (1,) * len(SIZES))
    for source in (f"{one}\n{two}", f"{raw}/a*.bin"):
        report = inspect(source, raw=shape)
        assert (report.rows, report.files, report.slots[0].key_max) == (288, 2, 2)
        assert inspect(source, raw=shape, limit=97).slots[0].key_max == 2
        assert inspect(source, raw=shape, limit=96).slots[0].key_max == 1
        assert digest_of_files("Raw", source) == digest_of_files("Raw", f"{one}\n{two}")
    for kind in (DataReaderType_t.Raw, DataReaderType_t.RawAsync):
        build(kind, f"{raw}/a*.bin", num_samples=288, float_label_dense=True).train()


def test_norm(tmp_path):
    for name in ("a", "b"):
        slots = np.ones((4, len(SIZES)), np.int64)
        write_norm(tmp_path / f"{name}.data", np.zeros(4), np.zeros((4, DENSE)), slots)
    assert inspect(tmp_path / "*.data").rows == 8
    for wrong in ({"source": f"{tmp_path}/*.data"}, {"eval_source": f"{tmp_path}/*.data"}):
        given = {"source": str(tmp_path / "list.txt")} | wrong
        with pytest.raises(InvalidArgument, match=r"file list; hugectr.data.write_file_list\("):
            build(DataReaderType_t.Norm, given.pop("source"), **given)


def test_what_a_pattern_matches(tmp_path):
    for name in (".git", "_x", "a.1", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "c").write_text("")
    assert matches(f"{tmp_path}/*/c") == [f"{tmp_path}/a.1/c", f"{tmp_path}/b/c"]
    assert matches(f"{tmp_path}/_x/*") == [f"{tmp_path}/_x/c"]
    assert matches(f"{tmp_path}/.g*/c") == [f"{tmp_path}/.git/c"]
