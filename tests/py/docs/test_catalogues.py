# SPDX-License-Identifier: Apache-2.0
"""Pages with a table of a catalogue have a line for each entry of it, as the core knows them."""

import re
from pathlib import Path

import pytest

import hugectr
from hugectr import _core

DOCS = Path(__file__).resolve().parents[3] / "docs"


def first_cells(page: str, head: str) -> set[str]:
    """The names in backticks of the first column, in the table of a page whose head begins so."""
    text = (DOCS / page).read_text()
    assert text.count(f"\n| {head} |") == 1
    table = text.split(f"\n| {head} |")[1].split("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines()[2:]]
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


@pytest.mark.parametrize(
    ("page", "head", "names"),
    [
        ("losses.md", "layer type", _core.losses()),
        ("losses.md", "`MetricsType`", _core.metrics()),
        ("optimizers.md", "`Optimizer_t`", _core.optimizers()),
        ("models/index.md", "model", hugectr.models.NAMES),
        ("classifier.md", "`model=`", hugectr.models.NAMES),
        ("placement.md", "placement", hugectr.spec.placement.PLACEMENTS),
        ("data.md", "`DataReaderType_t`", hugectr.DataReaderType_t.__members__),
    ],
)
def test_a_page_names_every_entry(page, head, names):
    assert first_cells(page, head) == set(names)


def test_the_page_of_checkpoints_says_of_whom_the_update_type_is_compared():
    (names,) = re.findall(
        r"update type where it matters \(([^)]*)\)", (DOCS / "checkpoints.md").read_text()
    )
    moved = {name for name, one in _core.optimizers().items() if one["moves_untouched_rows"]}
    assert set(re.findall(r"`(\w+)`", names)) == moved
