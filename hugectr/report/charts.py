# SPDX-License-Identifier: Apache-2.0
"""Line charts as SVG: colours and font are the page's, values show under the pointer.

There is no script: a strip of the chart that the pointer (or a finger) is on shows a group of its
own, by the page's style sheet.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator

from hugectr.report.axes import labels, number, span, ticks
from hugectr.report.html import Chart, Series, shown

# In user units; as wide as a card of a phone, so that the text is not smaller there.
WIDTH, HEIGHT = 420.0, 250.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 10.0, 26.0, 42.0
#: Strips that show values: a finger can hit no more.
_STRIPS = 60
# Of a tip, with the larger letters that the page has on a phone.
_CHARACTER, _LINE = 9.2, 17.0


class _Frame:
    """From values to places."""

    def __init__(self, chart: Chart) -> None:
        drawn = [s for s in chart.series if len(s.x)]
        self.x = span([float(v) for s in drawn for v in s.x])
        heights = [float(v) for s in drawn for v in s.y]
        if chart.target is not None:
            heights.append(chart.target[0])
        self.y = span(heights, 0.06)
        if heights and min(heights) >= 0 and max(heights) >= 1000:
            self.y = 0.0, self.y[1]
        self.whole_x = all(float(v).is_integer() for s in drawn for v in s.x)

    def across(self, x: float) -> float:
        low, high = self.x
        return _LEFT + (x - low) / (high - low) * (WIDTH - _LEFT - _RIGHT)

    def up(self, y: float) -> float:
        low, high = self.y
        return HEIGHT - _BOTTOM - (y - low) / (high - low) * (HEIGHT - _TOP - _BOTTOM)


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    words = html.escape(shown(text))
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{words}</text>'


def _places(frame: _Frame, series: Series) -> list[tuple[float, float]]:
    return [
        (frame.across(float(x)), frame.up(float(y)))
        for x, y in zip(series.x, series.y, strict=True)
        if math.isfinite(x) and math.isfinite(y)
    ]


def _axes(frame: _Frame, chart: Chart) -> Iterator[str]:
    heights = ticks(*frame.y, 5)
    for value, label in zip(heights, labels(heights), strict=True):
        y = frame.up(value)
        yield f'<line class="rule" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield _text(_LEFT - 6, y + 4, label, "tick", "end")
    places = ticks(*frame.x, 5, frame.whole_x)
    for value, label in zip(places, labels(places), strict=True):
        yield _text(frame.across(value), HEIGHT - _BOTTOM + 17, label, "tick", "middle")
    yield _text((WIDTH + _LEFT) / 2, HEIGHT - 6, chart.x_label, "tick", "middle")
    yield _text(4, 13, chart.y_label, "tick")


def _lines(frame: _Frame, chart: Chart) -> Iterator[str]:
    colour = 0
    for series in chart.series:
        places = _places(frame, series)
        kind = series.style
        if series.style in ("line", "points"):
            kind = f"line c{colour % 4}"
            colour += 1
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        yield f'<polyline class="{kind}" points="{points}"/>'
        if series.style == "points" or len(places) == 1:
            yield from (
                f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in places
            )
    if chart.target is not None:
        y = frame.up(chart.target[0])
        yield f'<line class="target" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield _text(WIDTH - _RIGHT, y - 5, chart.target[1], "goal", "end")


def _legend(chart: Chart) -> Iterator[str]:
    named = [series for series in chart.series if series.style in ("line", "points")]
    if len(named) < 2:
        return
    x = WIDTH - _RIGHT
    for i in reversed(range(len(named))):
        name = shown(named[i].name)
        yield _text(x, 12, name, "tick", "end")
        x -= 10 + _CHARACTER * len(name)
        yield f'<circle class="line c{i % 4}" cx="{x + 4:.1f}" cy="8" r="3.5"/>'
        x -= 12


def _tip(x: float, lines: list[str]) -> str:
    """A line where the pointer is, and what is there."""
    width = 12 + _CHARACTER * max(len(line) for line in lines)
    left = min(x + 8, WIDTH - width) if x < WIDTH / 2 else max(0.0, x - 8 - width)
    height = 8 + _LINE * len(lines)
    words = "".join(
        _text(left + 6, _TOP + _LINE * (i + 1), line, "said") for i, line in enumerate(lines)
    )
    return (
        f'<g class="tip"><line class="rule" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" '
        f'y2="{HEIGHT - _BOTTOM}"/><rect class="box" x="{left:.1f}" y="{_TOP}" width="{width:.1f}" '
        f'height="{height:.1f}" rx="4"/>{words}</g>'
    )


def _strips(frame: _Frame, chart: Chart) -> Iterator[str]:
    """Invisible strips that each show the values of one place."""
    values: dict[float, list[tuple[str, float]]] = {}
    for series in chart.series:
        if series.style == "reference":
            continue
        for x, y in zip(series.x, series.y, strict=True):
            if math.isfinite(x) and math.isfinite(y):
                values.setdefault(float(x), []).append((series.name, float(y)))
    all_x = sorted(values)
    step = max(1, -(-len(all_x) // _STRIPS))
    chosen = all_x[step - 1 :: step]
    if all_x and all_x[-1] not in chosen:
        chosen.append(all_x[-1])
    places = [frame.across(x) for x in chosen]
    for i, x in enumerate(chosen):
        left = _LEFT if i == 0 else (places[i - 1] + places[i]) / 2
        right = WIDTH - _RIGHT if i + 1 == len(places) else (places[i] + places[i + 1]) / 2
        lines = [f"{chart.x_label} {number(x)}"]
        lines += [f"{name} {number(y)}" for name, y in values[x]]
        yield (
            f'<g class="strip"><rect class="bare" x="{left:.1f}" y="{_TOP}" '
            f'width="{right - left:.1f}" height="{HEIGHT - _TOP - _BOTTOM}"/>'
            f"{_tip(places[i], [shown(line) for line in lines])}</g>"
        )


def chart_svg(chart: Chart) -> str:
    """Draw a chart.

    Parameters
    ----------
    chart : Chart
        With at least one point.
    """
    frame = _Frame(chart)
    parts = [*_axes(frame, chart), *_lines(frame, chart), *_legend(chart), *_strips(frame, chart)]
    label = html.escape(shown(chart.title), quote=True)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" '
        f'aria-label="{label}">{"".join(parts)}</svg>'
    )
