# SPDX-License-Identifier: Apache-2.0
"""A report and the notebooks in headless Chromium, as wide as a desktop and as a phone.

Nothing may reach beyond the screen, text in charts must be large enough to read, and nothing may
come from the network. The pictures are in ``build/check-all/screenshots``, to be looked at.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from check_all import LOGS, ROOT
from chromium import measure

WIDTHS = {"desktop": 1280, "phone": 360, "small-phone": 320}
#: CSS pixels: lines of less can not be read.
SMALLEST_TEXT = 9
PICTURES = LOGS / "screenshots"


def report_page(folder: Path) -> Path:
    """The report of a short training on the Adult data, with names and predictions."""
    sys.path.insert(0, str(ROOT / "tests/py"))
    from oracle.adult_model import adult_run

    model, test = adult_run(epochs=3)
    return model.report(folder / "report.html", test, title="Adult: does somebody earn more?")


def notebook_pages(folder: Path) -> list[Path]:
    """The committed notebooks as HTML, outputs included."""
    from nbconvert import HTMLExporter

    pages = []
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        exporter = HTMLExporter(template_name="lab", embed_images=True)
        text, _ = exporter.from_filename(str(notebook))
        page = folder / f"{notebook.stem}.html"
        page.write_text(text, encoding="utf-8")
        pages.append(page)
    return pages


def faults(page: Path, width: int, picture: Path, ours: bool) -> list[str]:
    """What is wrong with a page at a width; ``ours``: we wrote the whole page."""
    found = []
    measured = measure(page, width, picture)
    if measured.scroll > measured.client or measured.wide:
        found.append(f"{measured.scroll} px wide on a screen of {measured.client}: {measured.wide}")
    if measured.texts < 500:
        found.append(f"only {measured.texts} characters can be read")
    if ours and 0 < measured.smallest_text < SMALLEST_TEXT:
        found.append(f"text of {measured.smallest_text:.1f} px in a chart")
    if ours and re.search(r"https?://(?!www\.w3\.org/2000/svg)", page.read_text("utf-8")):
        found.append("an address in the page: it must need nothing else")
    return found


def run() -> tuple[int, int]:
    """Lays every page out at every width."""
    passed = failed = 0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        pages = [(report_page(folder), True)]
        pages += [(page, False) for page in notebook_pages(folder)]
        for page, ours in pages:
            for name, width in WIDTHS.items():
                picture = PICTURES / f"{page.stem}-{name}.png"
                wrong = faults(page, width, picture, ours)
                passed, failed = passed + (not wrong), failed + bool(wrong)
                print(f"{page.stem}, {name} ({width} px): {'; '.join(wrong) or 'ok'}")
    return passed, failed
