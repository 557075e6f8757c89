# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.tables import offsets_of

from hugectr import _core

GUARD = 77


@pytest.fixture(autouse=True)
def every_device(run_on_device: None) -> None:
    """See ``run_on_device``."""


def joined(keys, counts, samples):
    """What the op makes of inputs whose rows (samples, slots) have so many keys."""
    total = sum(map(len, keys))
    out = np.full(total + 3, GUARD, keys[0].dtype)
    offsets = np.full(samples * sum(c.shape[1] for c in counts) + 1, GUARD, np.uint32)
    _core.run_op(
        "join_slots",
        {
            "keys": keys,
            "row_offsets": [offsets_of(c.ravel()) for c in counts],
            "joined_keys": out,
            "joined_row_offsets": offsets,
        },
        {"samples": samples},
    )
    return out, offsets


@pytest.mark.parametrize("dtype", [np.uint32, np.int64])
@pytest.mark.parametrize("slots", [[1], [1, 1], [3, 1, 2], [1] * 40])
@pytest.mark.parametrize(("samples", "most"), [(1, 2), (700, 4), (50, 0), (9, 300)])
def test_rows_lie_side_by_side_in_the_order_of_the_inputs(rng, dtype, slots, samples, most):
    counts = [rng.integers(0, most + 1, (samples, n)) for n in slots]
    keys = [rng.integers(0, 2**31, int(c.sum())).astype(dtype) for c in counts]
    found, offsets = joined(keys, counts, samples)

    rows = [np.split(k, np.cumsum(c.ravel())[:-1]) for k, c in zip(keys, counts, strict=True)]
    wanted = []
    for i in range(samples):
        for k, n in enumerate(slots):
            wanted += rows[k][i * n : (i + 1) * n]
    np.testing.assert_array_equal(offsets, offsets_of(np.array([len(row) for row in wanted])))
    np.testing.assert_array_equal(found[: offsets[-1]], np.concatenate(wanted))
    np.testing.assert_array_equal(found[offsets[-1] :], GUARD)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"samples": 0}, "samples is 0"),
        ({"samples": 3}, "no slots of 3 samples"),
        ({"row_offsets": []}, "arrays of keys"),
        ({"joined_keys": np.zeros(1, np.int64)}, "joined_keys holds 1"),
        ({"joined_row_offsets": np.zeros(4, np.uint32)}, "joined_row_offsets holds 4"),
        ({"keys": [np.zeros(1, np.uint32)]}, "keys holds"),
    ],
)
def test_what_does_not_fit_is_refused(changes, text):
    tensors = {
        "keys": [np.zeros(2, np.int64)],
        "row_offsets": [np.array([0, 1, 2], np.uint32)],
        "joined_keys": np.zeros(2, np.int64),
        "joined_row_offsets": np.zeros(3, np.uint32),
    }
    attributes = {"samples": changes.get("samples", 2)}
    tensors |= {name: value for name, value in changes.items() if name != "samples"}
    with pytest.raises(_core.InvalidArgument, match=f"join_slots: .*{text}"):
        _core.run_op("join_slots", tensors, attributes)
