# SPDX-License-Identifier: Apache-2.0
"""The pictures of the architecture beside the tables that the layout is checked by."""

import importlib.util
import itertools
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs/architecture.md").read_text()
#: Modules and packages that only hand names on, and what the picture calls otherwise.
NOT_DRAWN = {"__main__", "cuda", "optimizer"}
CALLED = {"public": "hugectr", "core": "_core", "saved": "checkpoints"}


@pytest.fixture(scope="module")
def layout():
    spec = importlib.util.spec_from_file_location("layout_table", ROOT / "tools/check_layout.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def arrows(title):
    """Who stands on whom in the first picture below a title."""
    picture = TEXT.split(f"\n## {title}\n")[1].split("```mermaid\n")[1].split("```")[0]
    found = set()
    for line in picture.splitlines():
        sides = re.sub(r'\["[^"]*"\]', "", line).split("-->")
        for above, below in itertools.pairwise(sides):
            for one in above.split("&"):
                for other in below.split("&"):
                    names = one.strip(), other.strip()
                    found.add(tuple(CALLED.get(name, name) for name in names))
    return found


@pytest.mark.parametrize(
    ("title", "table"), [("Rooms", "ALLOWED_INCLUDES"), ("Python", "ALLOWED_IMPORTS")]
)
def test_a_picture_has_every_room_and_no_arrow_that_is_not_allowed(layout, title, table):
    allowed, found = getattr(layout, table), arrows(title)
    assert {name for pair in found for name in pair} == set(allowed) - NOT_DRAWN
    assert {(above, below) for above, below in found if below not in allowed[above]} == set()


def test_the_rooms_of_cuda_are_named(layout):
    text = TEXT.split("`core/cuda` has rooms of its own:")[1].split("\n\n")[0]
    assert set(layout.ALLOWED_CUDA_INCLUDES) <= set(re.findall(r"`(\w+)`", text))
    assert layout.BELOW_CUDA - {"base", "optimizers"} <= set(re.findall(r"`(\w+)`", text))
