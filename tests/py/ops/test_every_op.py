# SPDX-License-Identifier: Apache-2.0
"""No op is left out of this folder, and none is there for the CPU alone."""

import re
from pathlib import Path

import pytest

from hugectr import _core

#: Need a group: tests/cpp/comm and tests/cuda/comm/communicator_test.cpp.
ELSEWHERE = {"all_reduce"}
#: An op of several tables in one: tests/{cpp/device/several,cuda/grouped_tables}_test.cpp.
SEVERAL = "several_"

pytestmark = pytest.mark.cpu_only  # both ask about all devices at once


def test_every_op_is_run_by_name_in_this_folder():
    here = Path(__file__)
    texts = [p.read_text() for p in sorted(here.parent.glob("test_*.py")) if p != here]
    quoted = set(re.findall(r"""["']([a-z0-9_]+)["']""", "\n".join(texts)))
    names = set(_core.op_names())
    assert names >= ELSEWHERE
    several = {name for name in names if name.startswith(SEVERAL)}
    assert {name.removeprefix(SEVERAL) for name in several} <= names
    names -= several
    assert sorted(names - ELSEWHERE - quoted) == []


def test_cuda_has_the_ops_of_the_cpu():
    reason = _core.why_not("cuda")
    if reason:
        pytest.skip(reason)
    assert sorted(_core.op_names("cuda")) == sorted(_core.op_names())
