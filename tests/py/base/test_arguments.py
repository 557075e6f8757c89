# SPDX-License-Identifier: Apache-2.0
"""Checks of single values: names and paths that files and the core can hold."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hugectr import InvalidArgument
from hugectr.base.arguments import check_floats, check_ints, check_names, check_path, check_str
from hugectr.data import Columns, from_arrow, key_of


class Word(str):
    def __str__(self):
        return "another"


@pytest.mark.parametrize("bad", ["a\0b", "\ud800", "é\udfff", b"a", None, 3, np.array(["a", "b"])])
def test_what_is_no_name_is_refused(bad):
    with pytest.raises(InvalidArgument, match="here: found"):
        check_str("here", bad)
    with pytest.raises(InvalidArgument, match=r"here\[0\]: found"):
        check_names("here", [bad])


@pytest.mark.parametrize("name", [Word("é"), np.str_("é"), "é"])
def test_a_name_is_plain_text(name):
    assert type(check_str("here", name)) is str
    assert check_str("here", name) == "é"
    assert check_names("here", [name]) == check_names("here", (name,)) == ["é"]
    assert check_names("here", np.array(["é", "a"])) == ["é", "a"]


@pytest.mark.parametrize("bad", ["a\0b", "\ud800", b"a", None, 3, {"a": 1}, lambda: 0, ["a"]])
def test_what_is_no_path_is_refused(bad):
    with pytest.raises(InvalidArgument, match="here: found"):
        check_path("here", bad)


@pytest.mark.parametrize("path", ["a/b", Path("a/b"), Word("a/b")])
def test_a_path_is_plain_text(path):
    assert type(check_path("here", path)) is str
    assert check_path("here", path) == "a/b"
    assert check_path("here", "\udcff") == "\udcff"  # a file's name that is no UTF-8


@pytest.mark.parametrize("bad", [{1: 2}, "12", b"12", 3, None, np.array(3), [[1, 2]]])
def test_what_is_no_list_is_refused(bad):
    for check in (check_ints, check_floats):
        with pytest.raises(InvalidArgument, match=r"here.*: found"):
            check("here", bad)


def test_columns_are_named():
    for bad in (None, 3, b"ab", np.array(3), ["a\0"]):
        with pytest.raises(InvalidArgument, match="Columns: label: found"):
            Columns(bad)
    with pytest.raises(InvalidArgument, match="Columns: sparse: found None"):
        Columns("l", ["a"], None)
    with pytest.raises(InvalidArgument, match="Columns: sparse: found"):
        from_arrow(pa.table({"l": [0.0, 1.0]}), label="l", sparse=np.zeros(2))
    assert Columns(np.array(["a", "b"])).label == ("a", "b")


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        (1, "a", "column: found 1"),
        ("c", 2**64, "value: found 18446744073709551616"),
        ("c", -(2**63) - 1, "value: found -9223372036854775809"),
        ("c", 1.5, r"value: found 1\.5"),
        ("c", None, "value: found None"),
        ("c", "\ud800", "value: found"),
    ],
)
def test_categories_without_a_key_are_named(column, value, words):
    with pytest.raises(InvalidArgument, match=f"key_of: {words}"):
        key_of(column, value)


def test_categories_have_the_keys_that_they_had():
    assert key_of("c", 2**64 - 1) == key_of("c", -1) == key_of("c", np.int32(-1))
    assert key_of("c", True) == key_of("c", np.True_) == key_of("c", 1)
    assert key_of("c", "é") == key_of("c", "é".encode()) == key_of("c", np.str_("é"))
