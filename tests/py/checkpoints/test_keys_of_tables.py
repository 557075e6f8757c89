# SPDX-License-Identifier: Apache-2.0
"""What is said of the keys of saved tables, whatever their order and number."""

from pathlib import Path

import numpy as np
import pytest

from hugectr.checkpoints import key_files
from hugectr.checkpoints.key_files import look_at_keys


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("slots", [0, 3])
def test_keys_are_counted(
    slots: int, in_order: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng()
    key_file, slot_file = tmp_path / "key", tmp_path / "slot_id"
    for _ in range(50):
        monkeypatch.setattr(key_files, "_CHUNK", int(rng.integers(1, 40)))
        monkeypatch.setattr(key_files, "_PART", int(rng.integers(1, 60)))
        count = int(rng.integers(1, 200))
        rows = sorted_if(
            in_order, rng.integers(0, max(slots, 1), count), rng.integers(-9, 50, count)
        )
        rows[0].astype("<u8").tofile(slot_file)
        rows[1].astype("<i8").tofile(key_file)
        found = look_at_keys(key_file, slot_file if slots else None)
        assert found.twice == count - len(set(zip(*map(list, rows), strict=True)))
        assert (found.least, found.most) == (rows[1].min(), rows[1].max())
        assert found.slots == {int(one): int((rows[0] == one).sum()) for one in np.unique(rows[0])}


def sorted_if(wanted: bool, slots, keys):
    order = np.lexsort((keys, slots)) if wanted else np.arange(len(keys))
    return slots[order], keys[order]
