# SPDX-License-Identifier: Apache-2.0
"""Names of all kinds on the page of a report: shown as they are, never read as its code."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

pytest.importorskip("jinja2")

from hugectr.report import Chart, KeyFigure, Series, Share, Table, TrainingReport, write_html

NAMES = [
    "loss",
    '"><script>alert(1)</script>',
    "a < b & c > d",
    'it\'s "quoted"',
    "$x^$",
    "$\\frac{$ and $ 5",
    "$x^2$",
    'id="legend" href="#a" url(#b) #010203',
    "--> <!-- ]]>",
    "{{ report.title }} {% for %}",
    "nul \0 escape \x1b half \udcff",
    "läyer 表",
]


class Page(HTMLParser):
    """Tags and texts of a page, as a browser sees them."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.texts, self.labels = set(), [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.labels += [value for key, value in attributes if key == "aria-label"]

    def handle_data(self, data):
        self.texts.append(data)


def report_of(name):
    series = [Series(name, [0.0, 1.0], [0.5, 0.25])]
    share = Share(name, 1.0, 2.0, name)
    return TrainingReport(
        name,
        name,
        [KeyFigure(name, name, name)],
        [Chart(name, name, name, series, (0.3, name))],
        [(name, [share], name)],
        [Table(name, [name], [[name]], name, shares=[share])],
        [name],
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_shown_as_it_is(tmp_path, name):
    page = write_html(report_of(name), tmp_path / "report.html").read_text("utf-8")
    found = Page(page)
    expected = re.sub(r"[\0\x1b\udcff]", lambda c: ascii(c[0])[1:-1], name)
    assert found.labels == [expected]
    assert "script" not in found.tags
    # title, headings, cells, texts of the page; three labels of the chart
    assert sum(expected in text for text in found.texts) >= 15
    (svg,) = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    texts = [t.text for t in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count(expected) == 3
