# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from hugectr import _core

NONE = 2**32 - 1


@pytest.mark.parametrize("dim", [1, 3, 8, 33, 128])
@pytest.mark.parametrize("count", [0, 1, 700])
def test_parts_of_rows_change_places_together(rng, dim, count):
    places, rows = 900, 2000
    shapes = [((dim,), np.float32), ((1,), np.float32), ((1,), np.int64)]
    cache = [rng.integers(0, 2**31, (places, *s)).astype(t) for s, t in shapes]
    home = [rng.integers(0, 2**31, (rows, *s)).astype(t) for s, t in shapes]
    numbers = rng.permutation(rows).astype(np.uint32)
    at = rng.permutation(places)[:count].astype(np.uint32)
    leaving, coming = numbers[:count].copy(), numbers[count : 2 * count].copy()
    swapped = rng.random(count) < 0.4
    leaving[swapped] = coming[swapped]
    leaving[rng.random(count) < 0.3] = NONE
    coming[rng.random(count) < 0.3] = NONE
    wanted_cache, wanted_home = [c.copy() for c in cache], [h.copy() for h in home]
    for c, h in zip(wanted_cache, wanted_home, strict=True):
        goes, comes = leaving != NONE, coming != NONE
        new = h[coming[comes]].copy()
        h[leaving[goes]] = c[at[goes]]
        c[at[comes]] = new
    spare = np.full(3, 5, np.uint32)  # behind the count
    tensors = {
        "places": np.concatenate([at, spare]),
        "leaving": np.concatenate([leaving, spare]),
        "coming": np.concatenate([coming, spare]),
        "cache": cache,
        "home": home,
    }
    _core.run_op("move_rows", tensors, {"count": count})
    for found, wanted in zip([*cache, *home], [*wanted_cache, *wanted_home], strict=True):
        assert found.tobytes() == wanted.tobytes()


def test_one_way_and_what_does_not_fit():
    cache, home = np.zeros((4, 2), np.float32), np.ones((6, 2), np.float32)
    at = np.array([3, 1], np.uint32)
    tensors = {"places": at, "coming": np.array([5, NONE], np.uint32)}
    _core.run_op("move_rows", tensors | {"cache": [cache], "home": [home]}, {"count": 2})
    assert cache.sum() == 2
    assert (cache[3] == 1).all()
    wide = np.ones((6, 3), np.float32)
    with pytest.raises(_core.InvalidArgument, match="rows of 2 float32 in the cache and of 3"):
        _core.run_op("move_rows", tensors | {"cache": [cache], "home": [wide]}, {"count": 2})
