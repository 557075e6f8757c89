# SPDX-License-Identifier: Apache-2.0
"""Pictures of models: a row for each step, no box on another, no edge through one."""

import itertools
import random
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import hugectr

sys.path.append(str(Path(__file__).resolve().parents[3] / "docs/_ext"))

from graph_picture import (  # found through the line above
    GAP_X,
    Box,
    depths_of,
    edges_of,
    place,
    rows_and_ways,
    svg_of,
    width_of,
)

ROOT = Path(__file__).resolve().parents[3]


def random_boxes(seed):
    """A random graph without circles: each box reads up to three tensors written before."""
    rng = random.Random(seed)
    boxes = []
    for i in range(rng.randrange(2, 25)):
        written = [name for box in boxes for name in box.writes]
        reads = rng.sample(written, min(len(written), rng.randrange(4)))
        boxes.append(Box(f"box {i}", "", tuple(reads), (f"t{i}", f"u{i}")))
    return boxes


@pytest.mark.parametrize("seed", range(30))
def test_a_random_graph(seed):
    boxes = random_boxes(seed)
    edges = edges_of(boxes)
    depth = depths_of(len(boxes), edges)
    assert all(depth[before] < depth[after] for before, after in edges)
    rows, ways = rows_and_ways(len(boxes), edges)
    assert sorted(i for row in rows for i in row if i < len(boxes)) == list(range(len(boxes)))
    level = {item: i for i, row in enumerate(rows) for item in row}
    for (before, after), way in ways.items():
        assert (way[0], way[-1]) == (before, after)
        assert [level[item] for item in way] == list(range(depth[before], depth[after] + 1))
    middle = place(rows, ways, len(boxes))
    for row in rows:
        for left, right in itertools.pairwise(row):
            halves = (width_of(left, len(boxes)) + width_of(right, len(boxes))) / 2
            assert middle[right] - middle[left] >= halves + GAP_X - 1e-6


def test_a_tensor_that_is_written_twice_comes_from_the_last_writer():
    boxes = [Box("a", "", (), ("x",)), Box("b", "", ("x",), ("x",)), Box("c", "", ("x",), ())]
    assert edges_of(boxes) == [(0, 1), (1, 2)]


def test_the_picture_is_xml_with_all_boxes_and_escapes_names():
    boxes = [Box("a<b>", "1 & 2", (), ("x",), "input"), Box("c", "", ("x",), ())]
    root = ET.fromstring(svg_of(boxes, "<title>"))
    name = "{http://www.w3.org/2000/svg}"
    assert [one.get("class") for one in root.iter(f"{name}rect")] == ["input", "layer"]
    assert [one.text for one in root.iter(f"{name}text")] == ["a<b>", "1 & 2", "c"]
    assert len(list(root.iter(f"{name}path"))) == 1


def test_every_model_has_a_page():
    pages = {path.stem for path in (ROOT / "docs/models").glob("*.md")} - {"index"}
    assert pages == set(hugectr.models.NAMES)
    index = (ROOT / "docs/models/index.md").read_text()
    for name in pages:
        text = (ROOT / f"docs/models/{name}.md").read_text()
        assert f"{{model-picture}} {name}" in text
        assert f'CTRClassifier("{name}"' in text
        assert f"({name}.md)" in index
