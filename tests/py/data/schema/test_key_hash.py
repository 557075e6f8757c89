# SPDX-License-Identifier: Apache-2.0
"""Keys of categories: XXH64 as specified, whatever the Arrow layout, never negative or reserved."""

import numpy as np
import pyarrow as pa
import pytest
from oracle.xxh64 import key, xxh64

from hugectr import _core
from hugectr.base.errors import DataError

SEED = 0xFEDCBA9876543210


def test_the_core_and_the_specification_agree_on_every_length(rng):
    data = rng.integers(0, 256, 300, dtype=np.uint8).tobytes()
    for length in [*range(100), 255, 300]:
        for seed in (0, 1, SEED):
            assert _core.xxh64(data[:length], seed) == xxh64(data[:length], seed), length


@pytest.mark.parametrize(
    ("data", "hashed"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
    ],
)
def test_published_values(data, hashed):
    assert _core.xxh64(data) == xxh64(data) == hashed


TEXTS = ["", "Oslo", None, "ÆØÅ", "a text of more than twelve bytes", "x" * 1000]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.binary()])
def test_text_in_every_layout(kind):
    wanted = [-5 if text is None else key(text.encode(), SEED) for text in TEXTS]
    values = TEXTS if kind != pa.binary() else [t if t is None else t.encode() for t in TEXTS]
    array = pa.array(values, kind)
    assert _core.hash_keys(array, SEED, -5).tolist() == wanted
    assert _core.hash_keys(array.slice(1, 4), SEED, -5).tolist() == wanted[1:5]
    assert _core.hash_keys(array.slice(6), SEED, -5).tolist() == []


INTEGERS = [0, 1, None, 100, 127]


@pytest.mark.parametrize(
    "kind",
    [
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float32",
        "float64",
    ],
)
def test_numbers_of_every_type(kind):
    wanted = [-5 if n is None else key(n.to_bytes(8, "little"), SEED) for n in INTEGERS]
    array = pa.array(INTEGERS, kind)
    assert _core.hash_keys(array, SEED, -5).tolist() == wanted
    assert _core.hash_keys(array.slice(2), SEED, -5).tolist() == wanted[2:]


def test_booleans_are_zero_and_one_across_bytes(rng):
    values = rng.random(100) < 0.5
    array = pa.array(values)
    numbers = _core.hash_keys(pa.array(values.astype(np.int64)), SEED, -5)
    assert (_core.hash_keys(array, SEED, -5) == numbers).all()
    assert (_core.hash_keys(array.slice(13, 50), SEED, -5) == numbers[13:63]).all()


def test_floats_that_are_no_integers_are_others_than_all_integers():
    half = np.array([0.5])
    keys = _core.hash_keys(pa.array(half), SEED, -5)
    assert keys.tolist() == [key(half.tobytes(), SEED ^ (2**64 - 1))]
    assert keys != _core.hash_keys(pa.array(half.view(np.int64)), SEED, -5)


@pytest.mark.parametrize("values", [[None, None], [float("nan"), None]])
def test_nulls_and_nan_have_the_missing_key(values):
    assert _core.hash_keys(pa.array(values), SEED, 9).tolist() == [9, 9]


def test_unknown_keys_become_the_rare_one(rng):
    array = pa.array(rng.integers(0, 50_000, 100_000))
    keys = _core.hash_keys(array, SEED, 7)
    known = np.unique(keys)[::2]
    wanted = np.where(np.isin(keys, known), keys, 3)
    assert (_core.hash_keys(array, SEED, 7, known, 3) == wanted).all()
    assert (_core.hash_keys(array, SEED, 7, known[:0], 3) == 3).all()


def test_other_types_are_refused():
    with pytest.raises(DataError, match="has no keys"):
        _core.hash_keys(pa.array([1], pa.duration("s")), SEED, 0)
    with pytest.raises(DataError, match="dictionary"):
        _core.hash_keys(pa.array(["a"]).dictionary_encode(), SEED, 0)


def test_seeds_give_other_keys_none_of_which_is_negative_or_reserved():
    array = pa.array(np.arange(200_000))
    first, second = (_core.hash_keys(array, seed, 0) for seed in (1, 2))
    assert len(np.unique(np.concatenate([first, second]))) == 400_000
    assert first.min() >= 0
    assert first.max() < 2**63 - 1
