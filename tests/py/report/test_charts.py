# SPDX-License-Identifier: Apache-2.0
"""Charts: ticks and labels, values where the pointer is, and no card without content."""

import math
from xml.etree import ElementTree

import pytest

pytest.importorskip("jinja2")

from hugectr.report import Chart, KeyFigure, Series, Table, TrainingReport, write_html
from hugectr.report.axes import labels, number, span, ticks
from hugectr.report.charts import HEIGHT, WIDTH, chart_svg

SVG = "{http://www.w3.org/2000/svg}"


def of_class(svg, name):
    return [
        e for e in ElementTree.fromstring(svg).iter() if e.get("class", "").split()[:1] == [name]
    ]


@pytest.mark.parametrize(
    ("low", "high", "wanted", "expected"),
    [
        (0, 1, 4, [0, 0.25, 0.5, 0.75, 1]),
        (0.1, 0.9, 4, [0.2, 0.4, 0.6, 0.8]),
        (-3, 3, 3, [-2, 0, 2]),
        (1e-7, 5e-7, 4, [1e-7, 2e-7, 3e-7, 4e-7, 5e-7]),
    ],
)
def test_ticks(low, high, wanted, expected):
    assert ticks(low, high, wanted) == pytest.approx(expected)


def test_ticks_of_whole_numbers():
    assert ticks(1, 3, 10, whole=True) == [1, 2, 3]


def test_numbers():
    assert [number(v) for v in (0, 0.43219, 1234, 12345, 2.5e6, 3e-7)] == [
        *("0", "0.4322", "1234", "12.35k", "2.5M", "3e-07"),
    ]
    assert labels([0.93201, 0.93202, 0.93203]) == ["0.93201", "0.93202", "0.93203"]


def test_spans():
    assert span([1.0, math.nan, 3.0, math.inf]) == (1.0, 3.0)
    assert span([]) == (0.0, 1.0)
    low, high = span([0.5, 0.5])
    assert low < 0.5 < high


def test_every_value_shows_under_the_pointer():
    x = list(range(10))
    chart = Chart("t", "step", "loss", [Series("a", x, [0.1 * v for v in x]), Series("b", x, x)])
    strips = of_class(chart_svg(chart), "strip")
    assert len(strips) == 10
    for value, strip in zip(x, strips, strict=True):
        texts = [text.text for text in strip.iter(f"{SVG}text")]
        assert texts == [f"step {value}", f"a {number(0.1 * value)}", f"b {value}"]
    # Next to each other, without a gap, from edge to edge of the plot.
    rects = [next(strip.iter(f"{SVG}rect")) for strip in strips]
    ends = [float(r.get("x")) + float(r.get("width")) for r in rects]
    assert ends[:-1] == pytest.approx([float(r.get("x")) for r in rects[1:]], abs=0.11)


def test_long_curves_have_no_more_strips_than_fingers_hit():
    x = list(range(5000))
    svg = chart_svg(Chart("t", "step", "loss", [Series("a", x, x)]))
    strips = of_class(svg, "strip")
    assert 50 <= len(strips) <= 61
    assert [t.text for t in strips[-1].iter(f"{SVG}text")][0] == "step 4999"


@pytest.mark.parametrize("y", [[1.0], [2.0, 2.0], [math.nan, 1.0], [1e-300, 1e300], [-5.0, 1e6]])
def test_nothing_lies_outside(y):
    svg = chart_svg(
        Chart("t", "x", "y", [Series("a", range(len(y)), y, "points")], (y[-1], "goal"))
    )
    for line in ElementTree.fromstring(svg).iter(f"{SVG}polyline"):
        for place in (line.get("points") or "").split():
            across, up = map(float, place.split(","))
            assert 0 <= across <= WIDTH
            assert 0 <= up <= HEIGHT
    assert "nan" not in svg.replace("nan,", "")


def test_no_empty_cards(tmp_path):
    report = TrainingReport(
        "title",
        "",
        [KeyFigure("no value", "")],
        [Chart("no chart", "x", "y", [Series("a", [], [])])],
        [("no bars", [], "a note")],
        [Table("no table", ["head"], [])],
    )
    page = write_html(report, tmp_path / "page.html").read_text("utf-8")
    assert "no " not in page.partition("<main>")[2]


def test_nothing_comes_from_elsewhere(tmp_path):
    chart = Chart("t", "x", "y", [Series("a", [0, 1], [0, 1])])
    page = write_html(TrainingReport("t", "s", charts=[chart]), tmp_path / "p.html").read_text(
        "utf-8"
    )
    assert "<script" not in page
    assert "src=" not in page
    assert "@import" not in page
    assert page.count("http") == page.count("http://www.w3.org/2000/svg")
