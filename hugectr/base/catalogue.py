# SPDX-License-Identifier: Apache-2.0
"""What the core's catalogues say of their entries, as checks and as documentation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hugectr.base.arguments import check_float
from hugectr.base.errors import rejected

if TYPE_CHECKING:
    from hugectr._core_specs import CatalogueEntry, CatalogueField


def _bounds(field: CatalogueField) -> str:
    below = field["below"]
    return f">= {field['minimum']:g}" + (f" and < {below:g}" if math.isfinite(below) else "")


def check_field(name: str, value: Any, field: CatalogueField) -> float:
    """Check a field's value against its bounds, also when it is rounded to float32.

    Raises
    ------
    InvalidArgument
        Names the argument, what was found and what is allowed.
    """
    number = check_float(name, value)
    with np.errstate(over="ignore"):
        rounded = float(np.float32(number))
    if not (field["minimum"] <= rounded < field["below"] and math.isfinite(rounded)):
        raise rejected(name, value, f"a float32 number {_bounds(field)}")
    return number


def described(owner: str, entries: Mapping[str, CatalogueEntry]) -> str:
    """A catalogue as the Notes of a docstring.

    Parameters
    ----------
    owner : str
        What the names of the entries are members of, such as ``"MetricsType"``.
    entries : mapping of str to CatalogueEntry
    """
    lines = ["", "    Notes", "    -----"]
    for name, entry in entries.items():
        lines += [f"    ``{owner}.{name}``: {entry['doc']}.", ""]
        for field, about in entry["fields"].items():
            default = f"{about['default']:g} ({_bounds(about)})"
            lines += [f"        ``{field}`` = {default}: {about['doc']}.", ""]
    return "\n".join([*lines[:-1], "    "])
