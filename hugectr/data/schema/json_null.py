# SPDX-License-Identifier: Apache-2.0
"""A null where JSON lines have their objects, seen before Arrow sees it.

Arrow follows a null pointer where a block begins with one, and takes one further on for a row in
which all is missing.
"""

from __future__ import annotations

import re

from hugectr.data.schema.json_depth import without_text

_BEGIN = re.compile(rb"(?:\xef\xbb\xbf)?\s*null")
#: Inside of an object a comma or a bracket comes behind a bracket.
_BEHIND = re.compile(rb"\}\s*null")


def has_null_object(block: bytes) -> bool:
    """Whether the first value that is no object, in a block of JSON lines, may be a null."""
    if _BEGIN.match(block):
        return True
    return bool(_BEHIND.search(block) and _BEHIND.search(without_text(block)))
