# SPDX-License-Identifier: Apache-2.0
"""Paths that are no files: an error that names them, at once, in every format; never a hang."""

import os

import pytest
from oracle.small_net import DENSE, SIZES, build

from hugectr.base.errors import DataError, InvalidArgument
from hugectr.data import Columns
from hugectr.spec.enums import DataReaderType_t

COLUMNS = Columns(
    "label0",
    [f"dense{i}" for i in range(DENSE)],
    {"keys": [f"slot{i}" for i in range(len(SIZES))]},
)


def folder(path):
    path.mkdir()


def pipe(path):
    os.mkfifo(path)


def loop(path):
    other = path.with_name("other")
    path.symlink_to(other)
    other.symlink_to(path)


def dangling(path):
    path.symlink_to(path.with_name("nowhere"))


def device(path):
    path.symlink_to("/dev/zero")


def train(kind, source):
    columns = COLUMNS if kind is DataReaderType_t.Parquet else None
    model = build(kind, str(source), columns=columns)
    model.train()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("make", [folder, pipe, loop, dangling, device])
@pytest.mark.parametrize("kind", ["Raw", "RawAsync", "Parquet", "Norm", "Parquet folder"])
def test_what_is_no_file_is_named(tmp_path, kind, make):
    path = tmp_path / "strange.parquet"
    make(path)
    source = path
    if kind == "Norm":  # one more step: a list of it
        source = tmp_path / "list.txt"
        source.write_text(f"1\n{path}\n")
    elif kind == "Parquet folder":
        kind, source = "Parquet", tmp_path
    with pytest.raises((DataError, InvalidArgument)) as error:
        train(DataReaderType_t[kind], source)
    assert str(tmp_path) in str(error.value)


@pytest.mark.timeout(60)
def test_a_device_is_no_file_list(tmp_path):
    device(tmp_path / "list.txt")
    with pytest.raises(DataError, match="device"):
        train(DataReaderType_t.Norm, tmp_path / "list.txt")
