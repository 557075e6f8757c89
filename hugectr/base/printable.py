# SPDX-License-Identifier: Apache-2.0
"""Names from data as a terminal or a page may show them."""

from __future__ import annotations


def printable(text: str, keep: str = "") -> str:
    """A text in which what moves a cursor, or means something to a terminal, is an escape sequence.

    Parameters
    ----------
    text : str
    keep : str
        Signs that stay all the same, such as line ends.
    """
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() or sign in keep else sign.encode("unicode_escape").decode()
        for sign in text
    )
