# SPDX-License-Identifier: Apache-2.0
"""A loss that is no number is noticed by all processes of a job in the same call."""

import re
from collections import Counter

import pytest
from processes import job

SCRIPT = job.TESTS / "processes" / "nan_job.py"


@pytest.mark.parametrize("engine", job.ENGINES)
def test_all_processes_raise_the_same_and_go_on_together(engine, tmp_path):
    status, out, err = job.run(engine, 2, SCRIPT, tmp_path / "saved")
    assert status == 0, out + err
    said = Counter(re.findall(r"noticed at (\d+): (Loss cannot converge.*)", out))
    assert list(said.values()) == [2], out + err
    ((step, text),) = said
    assert "in step 18 " in text
    assert 18 <= int(step) <= 18 + 20
    assert len(re.findall(r"went on with \d\.\d+", out)) == 2, out + err
