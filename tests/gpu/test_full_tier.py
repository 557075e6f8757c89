# SPDX-License-Identifier: Apache-2.0
"""A disk tier below GPUs that is full, and rows that leave it: as with all rows on the GPUs."""

import pytest
from model.test_full_tier import STEPS, WIDE, check_looks_and_departures
from model.test_tiers import setup_of

CASES = {
    "adam": {},
    "adam lazy": {"update_type": "LazyGlobal"},
    "16 bits": {"vector_type": "bfloat16"},
}


@pytest.mark.parametrize("devices", [pytest.param(n, marks=pytest.mark.gpus(n)) for n in (1, 2)])
@pytest.mark.parametrize("case", CASES)
def test_rows_are_read_where_they_are_and_leave_all_places(case, devices, tmp_path):
    setup = setup_of(STEPS, device="cuda", devices=devices, **(WIDE | CASES[case]))
    check_looks_and_departures(setup, tmp_path)
