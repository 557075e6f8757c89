# SPDX-License-Identifier: Apache-2.0
"""Why columns of some types are left out, and what makes a feature of them."""

from __future__ import annotations

import pyarrow as pa

from hugectr.data.schema.values import is_list


def _named(kind: pa.DataType) -> tuple[str, str]:
    """What values of a type are to a user, and what to do about them; nothing where nobody says."""
    of_kind = pa.types
    if of_kind.is_duration(kind) or of_kind.is_interval(kind):
        return "durations", "make them numbers: column.dt.total_seconds()"
    if of_kind.is_time(kind):
        return "times of day", "make them numbers, such as seconds since midnight"
    if of_kind.is_struct(kind) and {"left", "right"} == {field.name for field in kind}:
        return "intervals", "make them text: column.astype(str)"
    if of_kind.is_map(kind) or of_kind.is_struct(kind):
        return "dicts", "make each value a column of its own, or make them text"
    if is_list(kind) and is_list(kind.value_type):
        return "lists of lists", "make one list of each, or make them text"
    if is_list(kind):
        return (
            f"lists of {kind.value_type}",
            "make each number a column of its own, or make them lists of integers or text",
        )
    return "", ""


def reason(kind: pa.DataType) -> str:
    """Why a column of this type is no feature."""
    while isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_dictionary(kind):
        return reason(kind.value_type)
    what, way_out = _named(kind)
    if not what:
        return f"Arrow type {kind} is none of a feature"
    return f"{what}; {way_out}"
