# SPDX-License-Identifier: Apache-2.0
"""In each process of a job: tables with places for few rows beside tables with all, to the bit.

tiers_job.py SAVED EXCHANGE DEVICES [DISK]: with a folder for rows, host memory has few places too.
"""

import sys
from pathlib import Path

from model.nets import make_model
from model.test_disk_tier import on_disk
from model.test_tiers import (
    BATCH,
    SLOTS,
    assert_same_rows,
    course,
    moved,
    setup_of,
    with_places,
)

setup = setup_of(processes=2, optimizer="Adam", exchange=sys.argv[2], devices=int(sys.argv[3]))
disk = Path(sys.argv[4]) if len(sys.argv) > 4 else None


def with_few(places, name):
    """The model with so many places on a device; its folder is its own."""
    if disk is None:
        return make_model(with_places(setup, places))
    return make_model(on_disk(setup, disk / name, places, 9 * places // 4))


plain, few = make_model(setup), with_few(2 * BATCH * SLOTS, "few")
assert course(few, 20, look=(5,)) == course(plain, 20)
folder = Path(sys.argv[1])
few.save(folder)
rest = course(few, 10)
assert course(plain, 10) == rest
assert_same_rows(few, plain)
again = with_few(3 * BATCH * SLOTS, "again")
again.resume(folder)
assert course(again, 10) == rest
assert_same_rows(again, plain)
assert moved(few)
if disk is not None:
    # Both processes have rows in one folder, each device in its own part of it.
    assert len([path for path in (disk / "few").iterdir() if path.is_dir()]) == 2 * setup.devices
    if setup.devices == 1:  # fewer rows for each of four devices: host memory holds them
        stats = few.table_stats()[0]
        assert stats["disk_rows"] > 0
        assert stats["disk_bytes_written"] > 0
print("the same")
