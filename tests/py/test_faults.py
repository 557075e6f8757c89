# SPDX-License-Identifier: Apache-2.0
"""A short part of every class of faults; ``make faults`` runs all of them."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1]))

from faults.run import CLASSES, load  # found through the line above


@pytest.mark.parametrize("name", CLASSES)
def test_faults_are_held(name, tmp_path):
    for number, case in enumerate(load(name).cases(full=False)):
        folder = tmp_path / str(number)
        folder.mkdir()
        case.run(folder)
