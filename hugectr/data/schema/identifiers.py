# SPDX-License-Identifier: Apache-2.0
"""Whether a column of integers names things, such as users, instead of measuring them."""

from __future__ import annotations

import math
import re

import numpy as np

from hugectr.data.schema.values import Float64s

#: Last words of names of columns that name things.
_WORDS = frozenset(
    """
    account ad advert advertiser app article artist asin book brand campaign category city code
    country creative customer device domain ean film guid hash id ids isbn item key member merchant
    movie postcode product publisher region seller shop site sku song store track uid user uuid
    visitor zip zipcode
    """.split()  # noqa: SIM905 one a line would be a page
)
#: Last words of those that say when: seconds since 1970 lie as ids do.
_TIMES = frozenset(
    ["at", "date", "day", "epoch", "ms", "seconds", "time", "timestamp", "ts", "utc"]
)
#: Of camelCase, of what is separated, of capitals behind it.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

#: Ids that were drawn lie anywhere in their range, and take few of its places.
_VALUES, _SHARE_OF_RANGE, _FROM_EVEN = 20, 0.01, 0.05


def _last_word(name: str) -> str:
    words = _WORD.findall(name)
    return str(words[-1]).lower() if words else ""


def named_so(name: str) -> bool:
    """Whether a name ends in a word that says so: ``user_id``, ``itemID``, ``zip``, ``movie``."""
    return _last_word(name) in _WORDS


def scattered(name: str, values: Float64s) -> bool:
    """Whether different integers lie in their range as numbers that were drawn do.

    They take less than a hundredth of its places, steps that all have in common (salaries in
    thousands) counted as one, and are spread evenly, where amounts crowd at one end or in the
    middle. Not of a name that says when.

    Parameters
    ----------
    name : str
    values : ndarray (n) of float64
        In any order, no value twice.
    """
    if len(values) < _VALUES or _last_word(name) in _TIMES:
        return False
    ascending = np.sort(values)
    places = ascending - ascending[0]
    step = int(np.gcd.reduce(places.astype(np.int64))) if places[-1] < 2.0**62 else 1
    if len(values) >= _SHARE_OF_RANGE * places[-1] / step:
        return False
    even = np.linspace(0.0, 1.0, len(values))
    apart = float(np.abs(places / places[-1] - even).max())
    return apart < _FROM_EVEN + 1 / math.sqrt(len(values))
