# SPDX-License-Identifier: Apache-2.0
"""In each process of a job: growing_tiers_job.py EXCHANGE DEVICE FOLDER: 500 steps, to the bit."""

import sys
from pathlib import Path

from model.growing_tiers import check_growth, growing_setup

setup = growing_setup(processes=2, exchange=sys.argv[1], device=sys.argv[2])
check_growth(setup, Path(sys.argv[3]))
print("the same")
