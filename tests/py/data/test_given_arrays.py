# SPDX-License-Identifier: Apache-2.0
"""Arrays of users: what is masked, missing or no number is refused by name, with its row."""

import numpy as np
import pytest

import hugectr
from hugectr.data import from_arrays, write_norm

MASKED = np.ma.masked_array
LABEL, DENSE, KEYS = [0.0, 1.0, 0.0], [[1.0], [2.0], [3.0]], [[1], [7], [9]]
OFFSETS = [0, 1, 2, 3]


def hidden(values, row=1):
    mask = np.zeros(np.shape(values), bool)
    mask[row:] = True
    return MASKED(values, mask)


def arrays(label=LABEL, dense=DENSE, keys=KEYS, **more):
    return from_arrays(label, dense, {"k": keys}, **more)


BAD = [
    ({"label": hidden(LABEL)}, r"label has 2 missing values \(the first in row 1\)"),
    ({"label": [MASKED([0.0], [True]), [1.0], [0.0]]}, r"label has 1 missing value \(in row 0\)"),
    ({"label": [0, None, 1]}, r"label has 1 missing value \(in row 1\)"),
    ({"label": np.array([0, 1j, 1])}, "label: dtype: found 'complex128'"),
    ({"label": ["0", "1", "0"]}, "label: dtype: found '<U1'"),
    ({"label": ""}, "label: dtype: found '<U1'"),
    ({"label": None}, "label: found None"),
    ({"label": [[0, 1], [1], [0]]}, "label: found"),
    ({"label": np.array([0, 1, "x"], object)}, "label, row 2: found 'x'"),
    ({"dense": hidden(DENSE, 2)}, r"dense has 1 missing value \(in row 2\)"),
    ({"dense": np.array(["2020-01-01"] * 3, "M8[D]")}, "dense: dtype: found 'datetime64"),
    ({"dense": [[1.0], [1e300], [2.0]]}, r"dense, row 1: found .*1e\+300.*float32"),
    ({"keys": hidden(KEYS)}, r"sparse\['k'\] has 2 missing values \(the first in row 1\)"),
    ({"keys": (hidden([1, 7, 9]), OFFSETS)}, r"sparse\['k'\]: keys has 2 missing"),
    ({"keys": ([1, 7, 9], hidden(OFFSETS, 3))}, r"row offsets has 1 missing .*place 3"),
    ({"keys": ([1, 7, 9],)}, "a tuple of 1"),
]
MORE = [
    ({"weight": hidden([1.0, 1e6, 1.0])}, r"weight has 2 missing values \(the first in row 1\)"),
    ({"weight": [1, 1j, 1]}, "weight: dtype: found 'complex128'"),
    ({"group": hidden([1, 2, 3])}, r"group has 2 missing values \(the first in row 1\)"),
]


@pytest.mark.parametrize(("changes", "words"), BAD + MORE)
def test_from_arrays_takes_no_value_that_is_not_there(changes, words):
    with pytest.raises(hugectr.InvalidArgument, match=words):
        arrays(**changes)


@pytest.mark.parametrize(
    ("changes", "words"), [case for case in BAD if "keys" not in case[0]], ids=str
)
def test_write_norm_takes_no_value_that_is_not_there(tmp_path, changes, words):
    given = {"label": LABEL, "dense": DENSE} | changes
    with pytest.raises(hugectr.InvalidArgument, match=f"write_norm: .*{words}"):
        write_norm(tmp_path / "x.norm", **given, slots=np.array(KEYS))
    assert not (tmp_path / "x.norm").exists()


@pytest.mark.parametrize(
    ("slots", "words"),
    [
        (hidden(KEYS), r"slots has 2 missing values \(the first in row 1\)"),
        ([(hidden([1, 7, 9]), OFFSETS)], "keys of slot 0 has 2 missing"),
        ([([1, 7, 9], hidden(OFFSETS, 3))], "row offsets of slot 0 has 1 missing"),
        ([([1, 7, 9], [0.0, 1.5, 2.0, 3.0])], "slot 0: row offsets have dtype float64"),
    ],
)
def test_write_norm_takes_no_keys_that_are_not_there(tmp_path, slots, words):
    with pytest.raises(ValueError, match=words):
        write_norm(tmp_path / "x.norm", LABEL, DENSE, slots)


def test_sparse_inputs_are_named():
    with pytest.raises(hugectr.InvalidArgument, match="sparse: found None"):
        from_arrays(LABEL, None, None)


def test_what_is_there_is_taken_as_ever():
    given = {"label": MASKED(LABEL), "dense": np.array(DENSE, object), "keys": MASKED(KEYS)}
    data, same = arrays(**given, weight=MASKED([1, 2, 3]), group=MASKED([1, 2, 2])), arrays()
    assert type(data.label) is type(data.sparse["k"][0]) is np.ndarray
    np.testing.assert_array_equal(data.label, same.label)
    np.testing.assert_array_equal(data.dense, same.dense)
    np.testing.assert_array_equal(data.sparse["k"][0], same.sparse["k"][0])
    assert from_arrays([True, False], [[np.inf], [np.nan]], {}).dense[0, 0] == np.inf
    assert from_arrays([True, False], np.zeros((2, 0), "U1"), {}).dense.shape == (2, 0)
