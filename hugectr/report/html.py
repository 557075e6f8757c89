# SPDX-License-Identifier: Apache-2.0
"""What a report holds, and its way into HTML."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path


@dataclass(frozen=True)
class Series:
    """A line of a chart.

    Attributes
    ----------
    name : str
        Shown under the pointer, and in the legend when the chart has more than one line.
    x, y : sequence of float
    style : {"line", "faint", "points", "reference"}
        "faint" is for raw values behind a smoothed line, "points" marks every value, "reference" is
        a dashed line without values of its own.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    style: str = "line"


@dataclass(frozen=True)
class Chart:
    """A chart: title, axis labels, lines, and an optional horizontal target line with its name."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    target: tuple[float, str] | None = None


@dataclass(frozen=True)
class KeyFigure:
    """A number at the top of the page, with a word or two about it."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Share:
    """A bar: ``value`` of ``whole`` (0 = no bar), and the text beside it."""

    name: str
    value: float
    whole: float
    text: str

    @property
    def percent(self) -> float:
        """Length of the bar in percent."""
        return 100.0 * min(1.0, self.value / self.whole) if self.whole > 0 else 0.0


@dataclass(frozen=True)
class Table:
    """A table: title, column heads, rows of text, and bars and a note below it.

    ``words`` says that the columns hold words, not numbers: they are aligned left.
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    words: bool = False
    shares: Sequence[Share] = ()


@dataclass
class TrainingReport:
    """Everything on the page, in the order it is shown; what has nothing in it is left out."""

    title: str
    subtitle: str
    figures: list[KeyFigure] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    bars: list[tuple[str, list[Share], str]] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    footer: list[str] = field(default_factory=list)


def shown(text: str) -> str:
    """A name as a page can show it: what no page may hold stands there as an escape sequence."""
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text
    )


def without_empty_cards(report: TrainingReport) -> TrainingReport:
    """The same without figures, charts, bars and tables that have nothing to show."""
    return TrainingReport(
        report.title,
        report.subtitle,
        [figure for figure in report.figures if figure.value],
        [chart for chart in report.charts if any(len(series.x) for series in chart.series)],
        [bar for bar in report.bars if bar[1]],
        [table for table in report.tables if table.rows or table.shares],
        [line for line in report.footer if line],
    )


def write_html(report: TrainingReport, path: str | os.PathLike[str]) -> Path:
    """Write the report as one file without links to anything outside it.

    Raises
    ------
    ImportError
        When jinja2 is missing; the message says how to install it.
    """
    from hugectr.report.charts import chart_svg

    try:
        import jinja2
    except ImportError as error:
        raise ImportError(
            f"the report needs {error.name}, which is not installed: pip install 'hugectr[report]'"
        ) from error
    source = resources.files("hugectr.report").joinpath("report.html.j2").read_text("utf-8")
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: shown(value) if type(value) is str else value,
    )
    report = without_empty_cards(report)
    charts = [(chart, chart_svg(chart)) for chart in report.charts]
    page = environment.from_string(source).render(report=report, charts=charts)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path
