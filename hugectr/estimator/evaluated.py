# SPDX-License-Identifier: Apache-2.0
"""The rows that a fit evaluates on, as they are given."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from numbers import Integral
from typing import Any

from hugectr.base.errors import DataError, InvalidArgument


@contextlib.contextmanager
def of_eval_set(where: str) -> Iterator[None]:
    """Errors inside say that they are of the eval_set."""
    try:
        yield
    except (DataError, InvalidArgument) as error:
        if str(error).startswith(where):
            raise
        kind = DataError if isinstance(error, DataError) else InvalidArgument
        raise kind(f"{where}: {error}") from error


def pair_of(where: str, eval_set: Any, y: Any) -> tuple[Any, Any]:
    """Features and labels of an ``eval_set``: a pair, a list of one, or data with the column y."""
    if isinstance(eval_set, list) and len(eval_set) == 1:
        eval_set = eval_set[0]
    if isinstance(eval_set, tuple) and len(eval_set) == 2:
        features, labels = eval_set
        return features, labels
    if isinstance(y, str | Integral):
        return eval_set, y
    raise InvalidArgument(
        f"{where}: found {type(eval_set).__name__}, allowed: (X, y), or a list of one such pair"
    )
