# SPDX-License-Identifier: Apache-2.0
"""In each process of a job: tables with places for few rows beside tables with all, to the bit."""

import sys
from pathlib import Path

from model.nets import make_model
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
plain, few = make_model(setup), make_model(with_places(setup, 2 * BATCH * SLOTS))
assert course(few, 20, look=(5,)) == course(plain, 20)
folder = Path(sys.argv[1])
few.save(folder)
rest = course(few, 10)
assert course(plain, 10) == rest
assert_same_rows(few, plain)
again = make_model(with_places(setup, 3 * BATCH * SLOTS))
again.resume(folder)
assert course(again, 10) == rest
assert_same_rows(again, plain)
assert moved(few)
print("the same")
