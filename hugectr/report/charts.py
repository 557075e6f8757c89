# SPDX-License-Identifier: Apache-2.0
"""Line charts as SVG that takes its colours and its font from the page around it."""

from __future__ import annotations

import html
import io
import re
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from hugectr.report.html import Chart, shown

# Colours nobody else uses stand in for the page's CSS variables until the SVG is text: so one
# drawing serves light and dark.
_VARIABLES = {
    "#010203": "var(--ink)",
    "#020304": "var(--grid)",
    "#030405": "var(--accent)",
    "#040506": "var(--target)",
    "#050607": "var(--muted)",
}
_INK, _GRID, _ACCENT, _TARGET, _MUTED = _VARIABLES

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # names are shown as they are, dollar signs and all
    "font.size": 11,
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": _GRID,
    "grid.linewidth": 0.8,
    "xtick.color": _GRID,
    "xtick.labelcolor": _MUTED,
    "ytick.color": _GRID,
    "ytick.labelcolor": _MUTED,
    "ytick.left": False,
    "text.color": _INK,
    "legend.frameon": False,
    "path.simplify_threshold": 0.5,
}


def chart_svg(chart: Chart, name: str) -> str:
    """Draw a chart.

    Parameters
    ----------
    chart : Chart
    name : str
        Prefix of all element ids, unique in the page.
    """
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=(6.4, 3.3), layout="constrained")
        figure.patch.set_visible(False)
        axes = figure.add_subplot()
        axes.patch.set_visible(False)
        _draw(axes, chart)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]
    for left_out in (r"<metadata>.*?</metadata>", r"<!--.*?-->"):
        svg = re.sub(left_out, "", svg, flags=re.DOTALL)

    def of_the_page(tag: re.Match[str]) -> str:
        text = tag[0]
        for colour, variable in _VARIABLES.items():
            text = text.replace(colour, variable)
        text = re.sub(r'\bid="', f'id="{name}-', text)
        text = re.sub(r'href="#', f'href="#{name}-', text)
        return text.replace("url(#", f"url(#{name}-")

    # Only in tags: what a user's names hold lies between them, and stays as it is.
    svg = re.sub(r"<[^>]*>", of_the_page, svg)
    # Width and height come from the page; the view box keeps the proportions.
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    label = html.escape(shown(chart.title), quote=True)
    return svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)


def _draw(axes: Axes, chart: Chart) -> None:
    for series in chart.series:
        if series.style == "faint":
            axes.plot(series.x, series.y, color=_MUTED, linewidth=0.8, alpha=0.45)
        elif series.style == "points":
            axes.plot(series.x, series.y, color=_ACCENT, linewidth=1.8, marker="o", markersize=4.5)
        else:
            axes.plot(series.x, series.y, color=_ACCENT, linewidth=2)
    if chart.target is not None:
        value, text = chart.target[0], shown(chart.target[1])
        axes.axhline(value, color=_TARGET, linewidth=1.2, linestyle=(0, (5, 4)))
        axes.annotate(
            text,
            (1, value),
            xycoords=("axes fraction", "data"),
            xytext=(0, 4),
            textcoords="offset points",
            ha="right",
            color=_TARGET,
        )
    axes.set_xlabel(shown(chart.x_label))
    axes.set_ylabel(shown(chart.y_label))
    axes.margins(x=0.02)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5))
    largest = max((max(s.y) for s in chart.series if len(s.y)), default=0.0)
    if largest >= 1000:
        axes.yaxis.set_major_formatter(EngFormatter(sep=""))
        axes.set_ylim(bottom=0)
