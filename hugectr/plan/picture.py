# SPDX-License-Identifier: Apache-2.0
"""A page that shows who holds what: HTML with an SVG, no script and nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from hugectr.plan.placements import PlacementPlan, TablePlacement

_WIDTH, _BAR, _GAP, _LEFT = 900, 26, 8, 90
_COLOURS = {
    "by_key": "#4477aa",
    "by_slot": "#66ccee",
    "one_device": "#228833",
    "replicated": "#ccbb44",
    "by_column": "#aa3377",
    "hybrid": "#ee7733",
}
#: What bytes of a tier are called behind "bytes".
_IN = {"device": "", "host": " in host memory", "disk": " on disk"}


def plan_page(plan: PlacementPlan) -> str:
    """A plan as a page.

    Parameters
    ----------
    plan : PlacementPlan
    """
    phases = "".join(
        f"<tr><td>{escape(phase)}</td><td>{ms:.3f}</td><td>{plan.fixed_ms.get(phase, 0.0):.3f}</td>"
        "</tr>"
        for phase, ms in plan.ms.items()
    )
    dense = f"<tr><td>dense network</td><td>{plan.dense_ms:.3f}</td></tr>" if plan.dense_ms else ""
    if plan.hidden_ms:
        dense += (
            f"<tr><td>of what travels, hidden beside it</td><td>{-plan.hidden_ms:.3f}</td></tr>"
        )
    whole = (
        f"<tr><th>whole step, {escape(plan.beside_step)}</th><th>{plan.training_ms:.3f}</th></tr>"
    )
    others = "".join(
        f"<tr><td>whole step, all {escape(kind)}</td><td>{ms:.3f}</td></tr>"
        for kind, ms in plan.uniform_ms.items()
    )
    measured = "".join(
        f"<tr><td>measured: {escape(name)}</td><td>{ms:.3f}</td></tr>"
        for name, ms in plan.measured_ms.items()
    )
    key = "".join(
        f"<span style='background:{colour};color:#fff;padding:2px 6px'>{kind}</span> "
        for kind, colour in _COLOURS.items()
    )
    no_room = "".join(f"<p><b>No room</b>: {escape(where)}</p>" for where in plan.lacking)
    notes = "".join(f"<p>Note: {escape(said)}</p>" for said in plan.notes)
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>Placements</title>"
        "<style>body{font:14px sans-serif;margin:2em}td,th{padding:2px 10px;text-align:left}"
        "</style></head><body>"
        f"<h1>Placements of {len(plan.tables)} tables on {plan.devices} devices</h1>"
        f"<p>Predicted for {escape(plan.machine)}, global batch {plan.batchsize}: "
        f"a whole step of {plan.training_ms:.3f} ms. {key}</p>{no_room}{notes}{_bars(plan)}"
        f"<h2>Milliseconds a step</h2><table><tr><th>phase</th><th>ms</th>"
        f"<th>of it launches and waits</th></tr>{phases}"
        f"<tr><th>tables in all</th><th>{plan.step_ms:.3f}</th></tr>"
        f"{dense}{whole}{measured}{others}</table>"
        f"<h2>Tables</h2>{_tables(plan.tables, list(plan.tiers))}</body></html>\n"
    )


def _bars(plan: PlacementPlan) -> str:
    """A bar a device of the bytes of its tables, and one of those of its rows in host memory and on
    a disk where some are there; a part says its table when it is pointed at."""
    tiers = plan.tiers
    most = max([1, *(size for held in tiers.values() for size in held)])
    parts = []
    bars = [(device, tier) for device in range(plan.devices) for tier in tiers]
    for bar, (device, tier) in enumerate(bars):
        y, x = bar * (_BAR + _GAP), float(_LEFT)
        label = f"device {device}" if tier == "device" else f"its {tier}"
        parts.append(f"<text x='0' y='{y + 17}' font-size='13'>{label}</text>")
        for table in plan.tables:
            sizes = _held(table, tier)
            held = sizes[device] if device < len(sizes) else 0
            if held == 0:
                continue
            width = (_WIDTH - _LEFT) * held / most
            parts.append(
                f"<rect x='{x:.2f}' y='{y}' width='{width:.2f}' height='{_BAR}' "
                f"fill='{_COLOURS.get(table.kind, '#888')}' stroke='#fff' stroke-width='.5'>"
                f"<title>{escape(table.name)}: {table.kind}, {held:,} bytes{_IN[tier]}</title>"
                "</rect>"
            )
            x += width
    height = len(bars) * (_BAR + _GAP)
    return f"<svg width='{_WIDTH}' height='{height}' role='img'>{''.join(parts)}</svg>"


def _held(table: TablePlacement, tier: str) -> tuple[int, ...]:
    return {"device": table.bytes, "host": table.host, "disk": table.disk}[tier]


def _tables(tables: Sequence[TablePlacement], tiers: Sequence[str]) -> str:
    def bytes_of(table: TablePlacement) -> str:
        return "".join(f"<td>{sum(_held(table, tier)):,}</td>" for tier in tiers)

    rows = "".join(
        f"<tr><td>{escape(table.name)}</td><td>{escape(str(table))}</td><td>{table.rows:,}</td>"
        f"{bytes_of(table)}<td>{sum(table.ms.values()):.3f}</td></tr>"
        for table in tables
    )
    sizes = "".join(f"<th>bytes{_IN[tier]}</th>" for tier in tiers)
    head = f"<tr><th>table</th><th>placement</th><th>rows</th>{sizes}<th>ms</th></tr>"
    return f"<table>{head}{rows}</table>"
