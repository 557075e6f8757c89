# SPDX-License-Identifier: Apache-2.0
"""The examples on the GPU learn what they learn on the CPU."""

import sys
from pathlib import Path

import pytest

import hugectr

sys.path.insert(0, str(Path(__file__).parents[1] / "py"))

from oracle.samples import NAMES, check, copied_to, figures, run, script

pytestmark = pytest.mark.skipif(
    not hugectr.cuda.is_available(), reason="no GPU: " + hugectr.cuda.why_not()
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied_to(tmp_path_factory.mktemp("examples"))


@pytest.mark.parametrize("name", NAMES)
def test_script_learns(name: str, folder: Path, record_property) -> None:
    output = run(folder, *script(name))
    assert "Device 0: " in output
    assert "virtual device" not in output, "it ran elsewhere"
    found = figures(output)
    for figure, value in found.items():
        record_property(figure, value)
    check(name, found)
