# SPDX-License-Identifier: Apache-2.0
"""A page in headless Chromium: its picture, and what is wider than the screen.

Headless Chromium has no window as narrow as a phone, so the page is put into a frame of the wanted
width, for which its media queries hold; a script around the frame measures.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
#: Seconds a page may take.
TIMEOUT = 120

_AROUND = """<!DOCTYPE html><meta charset="utf-8"><style>html,body{{margin:0}}
iframe{{border:0;display:block;width:{width}px;height:{height}px}}</style>
<iframe srcdoc="{page}"></iframe><script>
document.querySelector("iframe").addEventListener("load", (event) => {{
  const page = event.target.contentDocument, root = page.documentElement;
  const scrolls = (node) => node && node !== root && (
    ["auto", "scroll", "hidden"].includes(event.target.contentWindow.getComputedStyle(node).overflowX)
    || scrolls(node.parentElement));
  const wide = [...page.body.querySelectorAll("*")].filter((node) =>
    node.getBoundingClientRect().right > root.clientWidth + 1
    && !node.closest("svg") && !scrolls(node.parentElement));
  const small = [...page.querySelectorAll("svg text")].map((node) => node.getBoundingClientRect().height)
    .filter((height) => height > 0);
  document.body.dataset.found = JSON.stringify({{
    scroll: root.scrollWidth, client: root.clientWidth, height: root.scrollHeight,
    wide: wide.slice(0, 5).map((node) => node.tagName + "." + node.className),
    smallest_text: small.length ? Math.min(...small) : 0,
    texts: page.body.innerText.length}});
}});</script>"""


@dataclass(frozen=True)
class Measured:
    """A page as it is laid out.

    Attributes
    ----------
    scroll, client, height : int
        Width of the content and of the screen, height of the content, in CSS pixels.
    wide : list of str
        Elements that reach beyond the right edge, and in no box that scrolls.
    smallest_text : float
        Height of the smallest line of text in a drawing; 0: there is none.
    texts : int
        Characters that can be read.
    """

    scroll: int
    client: int
    height: int
    wide: list[str]
    smallest_text: float
    texts: int


def browser() -> str:
    """Path of Chromium.

    Raises
    ------
    FileNotFoundError
        Names the package.
    """
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        raise FileNotFoundError("Chromium is missing: apt-get install chromium (Debian, Ubuntu)")
    return found


def _run(arguments: list[str], folder: str) -> str:
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    # Nothing of a page may come from anywhere else.
    flags += [f"--user-data-dir={folder}/profile", "--host-resolver-rules=MAP * ~NOTFOUND"]
    flags += ["--virtual-time-budget=5000", "--no-first-run", "--disable-extensions"]
    done = subprocess.run(
        [browser(), *flags, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"Chromium failed ({done.returncode}): {done.stderr[-2000:]}")
    return done.stdout


def measure(page: Path, width: int, picture: Path | None = None) -> Measured:
    """Lay a page out at a width, and take its picture.

    Parameters
    ----------
    page : Path
        HTML that needs nothing else.
    width : int
        Of the screen, in CSS pixels.
    picture : Path, optional
        The whole page as PNG.
    """
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        around = Path(folder) / "around.html"

        def write(height: int) -> str:
            around.write_text(
                _AROUND.format(width=width, height=height, page=html.escape(text, quote=True)),
                encoding="utf-8",
            )
            return around.as_uri()

        dumped = _run(["--window-size=1400,1000", "--dump-dom", write(900)], folder)
        found = re.search(r'data-found="([^"]*)"', dumped)
        if found is None:
            raise RuntimeError(f"{page}: Chromium did not lay it out: {dumped[-500:]}")
        measured = Measured(**json.loads(html.unescape(found[1])))
        if picture is not None:
            picture.parent.mkdir(parents=True, exist_ok=True)
            height = measured.height
            # A window is never narrower than 500; the rest of the picture is empty.
            size = f"--window-size={max(width, 500)},{height}"
            _run([f"--screenshot={picture}", size, write(height)], folder)
    return measured
