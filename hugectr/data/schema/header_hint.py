# SPDX-License-Identifier: Apache-2.0
"""What may be wrong with the first line of a CSV file where no column has the name looked for."""

from __future__ import annotations

from collections.abc import Sequence

#: Signs between values that are not taken for such, since they stand between those of a history.
_OTHER_SIGNS = ("|", ":", "^", "~")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def hint_of_names(names: Sequence[str]) -> str:
    """Why the first line may have no names: it is one of values, or of another separator.

    Parameters
    ----------
    names : sequence of str
        As they were read.
    """
    if len(names) == 1:
        sign = next((one for one in _OTHER_SIGNS if one in names[0]), None)
        if sign is None:
            return ""
        return (
            f"the file has one column with {sign!r} in its name: is that the separator? Write "
            "commas, semicolons or tabs instead"
        )
    named = [name for name in names if name]
    numbers = [name for name in named if _is_number(name)]
    if numbers and (2 * len(numbers) >= len(named) or len(set(numbers)) < len(numbers)):
        return (
            f"the first line is the header, and has numbers for names, such as {numbers[0]!r}: if "
            "it is a row of values, put a line of names before it"
        )
    return ""
