# SPDX-License-Identifier: Apache-2.0
"""The style sheet that charts need around them, in a page of our own and in a notebook."""

from __future__ import annotations

#: Colours by the names that a page gives them (``--ink``, ...).
STYLE = """
svg { display: block; width: 100%; max-width: 600px; height: auto; margin: 0 auto; }
svg text {
  font: 11px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
  fill: var(--ink); font-variant-numeric: tabular-nums;
}
svg .tick { fill: var(--muted); }
svg .rule { stroke: var(--grid); stroke-width: 1; }
svg polyline { fill: none; stroke-width: 2; stroke-linejoin: round; }
svg polyline.faint { stroke: var(--muted); stroke-width: 1; opacity: .4; }
svg polyline.reference { stroke: var(--muted); stroke-width: 1; stroke-dasharray: 5 4; }
svg circle.faint, svg circle.reference { fill: var(--muted); opacity: .4; }
svg polyline.c0 { stroke: var(--accent); } svg circle.c0 { fill: var(--accent); }
svg polyline.c1 { stroke: var(--target); } svg circle.c1 { fill: var(--target); }
svg polyline.c2 { stroke: var(--third); } svg circle.c2 { fill: var(--third); }
svg polyline.c3 { stroke: var(--fourth); } svg circle.c3 { fill: var(--fourth); }
svg .target { stroke: var(--target); stroke-width: 1.2; stroke-dasharray: 5 4; }
svg .goal { fill: var(--target); }
svg .bare { fill: transparent; }
svg .box { fill: var(--card); stroke: var(--grid); }
svg .tip { visibility: hidden; pointer-events: none; }
svg .strip:hover .tip { visibility: visible; }
@media (max-width: 560px) { svg text { font-size: 15px; } }
"""

#: Of a page that has no names for colours.
_COLOURS = (
    "--card:#fff;--ink:#1a1f27;--muted:#5d6775;--grid:#d9dee5;--accent:#1f6feb;--target:#b4560f;"
    "--third:#2e8b57;--fourth:#8250df"
)


def in_notebook(svgs: list[str]) -> str:
    """Charts beside each other, with a style sheet that touches nothing else on the page."""
    style = STYLE.replace("svg", ".hugectr-charts svg")
    charts = "".join(f'<div style="flex:1 1 280px;max-width:480px">{svg}</div>' for svg in svgs)
    return (
        f"<style>{style}</style><div class='hugectr-charts' style='display:flex;flex-wrap:wrap;"
        f"gap:1em;background:#fff;{_COLOURS}'>{charts}</div>"
    )
