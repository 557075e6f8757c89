# SPDX-License-Identifier: Apache-2.0
"""A report at the end of a training."""

from __future__ import annotations

import os
from typing import Any

from hugectr.callbacks.callback import Callback, Logs


class Report(Callback):
    """Write ``Model.report`` when the fit ends, unless an error ended it.

    Behind EarlyStopping in the list of callbacks it is about the best weights.

    Parameters
    ----------
    path : path-like
        Of the HTML file.
    data, names, title, seed
        As of ``Model.report``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        data: Any = None,
        *,
        names: Any = None,
        title: str = "",
        seed: int = 0,
    ) -> None:
        self._path, self._data = path, data
        self._more = {"names": names, "title": title, "seed": seed}

    def on_fit_end(self, logs: Logs) -> None:
        """Write it."""
        if self.fit.error is None:
            self.model.report(self._path, self._data, history=self.fit.history, **self._more)
