# SPDX-License-Identifier: Apache-2.0
"""The progress bar of a fit: on a terminal, or in a notebook."""

from __future__ import annotations

import contextlib
import html
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

#: Seconds between two drawings in a notebook.
_PAUSE = 0.2


class NoBar:
    """Nothing is shown."""

    #: Whether there is something to see; and evaluations too, so that they need no lines.
    shows_steps = shows_evaluations = False

    def advance(self, text: str) -> None:
        """A step was trained."""

    def evaluation(self, step: int, values: Mapping[str, float]) -> None:
        """An evaluation is done."""


class TerminalBar(NoBar):
    """A bar that is gone at the end.

    Parameters
    ----------
    bar : rich.progress.Progress
    total : int or None
        Steps; None: not known.
    """

    shows_steps = True

    def __init__(self, bar: Any, total: int | None) -> None:
        self._bar = bar
        self._task = bar.add_task("training", total=total)

    def advance(self, text: str) -> None:
        """Move on."""
        self._bar.update(self._task, advance=1, description=text)


class NotebookBar(NoBar):
    """A bar and a table of the evaluations, as HTML that is drawn anew; the table stays.

    Parameters
    ----------
    show : callable
        ``IPython.display.display``.
    kind : type
        ``IPython.display.HTML``.
    total : int or None
        Steps; None: not known.
    """

    shows_steps = shows_evaluations = True

    def __init__(self, show: Any, kind: Any, total: int | None) -> None:
        self._kind, self._total = kind, total
        self._done, self._text = 0, ""
        self._rows: list[tuple[int, dict[str, float]]] = []
        self._drawn = time.perf_counter()
        self._handle = show(kind(self._html()), display_id=True)

    def advance(self, text: str) -> None:
        """Move on; it is drawn a few times a second at most."""
        self._done += 1
        self._text = text
        now = time.perf_counter()
        if now - self._drawn >= _PAUSE:
            self._draw(now)

    def evaluation(self, step: int, values: Mapping[str, float]) -> None:
        """Another line of the table."""
        self._rows.append((step, dict(values)))
        self._draw(time.perf_counter())

    def close(self) -> None:
        """Leave the table and how many steps there were: nothing that differs from run to run."""
        self._handle.update(self._kind(f"<div>trained {self._done:,} steps</div>{self._table()}"))

    def _draw(self, now: float) -> None:
        self._drawn = now
        self._handle.update(self._kind(self._html()))

    def _html(self) -> str:
        bar = (
            f'<progress max="{self._total}" value="{self._done}" style="width:min(24em,100%)">'
            "</progress> "
            if self._total
            else ""
        )
        return f"<div>{bar}{html.escape(self._text)}</div>{self._table()}"

    def _table(self) -> str:
        if not self._rows:
            return ""
        names = list(self._rows[0][1])
        head = "".join(f"<th>{html.escape(name)}</th>" for name in ("step", *names))
        body = "".join(
            f"<tr><td>{step:,}</td>"
            + "".join(f"<td>{values[name]:.4f}</td>" for name in names)
            + "</tr>"
            for step, values in self._rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def in_notebook() -> bool:
    """Whether a Jupyter kernel runs this."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return shell is not None and hasattr(shell, "kernel")


@contextlib.contextmanager
def progress_bar(wanted: bool, total: int | None) -> Iterator[NoBar]:
    """The bar for where the program runs.

    Parameters
    ----------
    wanted : bool
    total : int or None
        Steps that will be trained; None: not known.
    """
    if wanted and in_notebook():
        from IPython.display import HTML, display

        bar = NotebookBar(display, HTML, total)
        try:
            yield bar
        finally:
            bar.close()
    elif wanted and sys.stdout.isatty():
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
        with Progress(*columns, transient=True) as shown:
            yield TerminalBar(shown, total)
    else:
        yield NoBar()
