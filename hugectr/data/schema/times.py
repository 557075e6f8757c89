# SPDX-License-Identifier: Apache-2.0
"""Points in time as int64 nanoseconds, and the hours and weekdays of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hugectr.data.schema.fields import CYCLES, TimestampField
from hugectr.data.schema.values import (
    bad_type,
    bad_value,
    first_failing,
    is_text,
    plain,
    value_at,
)

Int64s = npt.NDArray[np.int64]

#: What stands for a missing time: NaT of NumPy.
MISSING_TIME = -(2**63)
_HOUR = 3_600_000_000_000
_NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
#: Of text a time of day, and one with a zone: the day of a date without a time ends like a zone.
_OF_DAY = "[T ][0-9]{2}"
_ZONED = _OF_DAY + r":.*(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"


def zoned(array: pa.Array) -> bool | None:
    """Whether the first time says its zone (``TimestampField.zoned``); None where none could."""
    array = plain(array)
    if not is_text(array.type):
        return array.type.tz is not None if pa.types.is_timestamp(array.type) else None
    text = pc.utf8_trim_whitespace(array)
    found = pc.match_substring_regex(text, _ZONED).filter(pc.match_substring_regex(text, _OF_DAY))
    return bool(found[0].as_py()) if len(found) else None


#: By what the field wants: what is wrong with a time, and what to do.
_OTHER = {
    True: (
        "says no zone, and the times that the schema was made of do",
        "write it (2024-05-31T12:30:00+02:00; in pandas .dt.tz_localize), or take those without "
        "for UTC by TimestampField(zoned=None)",
    ),
    False: (
        "says a zone, and the times that the schema was made of do not",
        "convert it to theirs (in pandas .dt.tz_convert, .dt.tz_localize(None)), or take them for "
        "UTC by TimestampField(zoned=None)",
    ),
}


def _check_zones(field: TimestampField, array: pa.Array, first_row: int) -> None:
    """Complains about the first time that says a zone where none should, or none where all do."""
    if field.zoned is None:
        return
    if is_text(array.type):
        text = pc.utf8_trim_whitespace(array)
        has = pc.match_substring_regex(text, _ZONED)
        other = pc.and_(pc.match_substring_regex(text, _OF_DAY), pc.not_equal(has, field.zoned))
    elif pa.types.is_timestamp(array.type) and (array.type.tz is not None) != field.zoned:
        other = array.is_valid()
    else:
        return
    rows = np.asarray(pc.fill_null(other, False))
    if rows.any():
        row = int(rows.argmax())
        shown = str(value_at(array, row))
        raise bad_value(field.name, first_row + row, shown, *_OTHER[field.zoned])


def _from_text(text: pa.Array, unit: str) -> pa.Array:
    """ISO 8601 with or without a zone, or an integer; each value for itself."""
    nothing = pa.scalar(None, text.type)
    number = pc.match_substring_regex(text, "^-?[0-9]+$")
    counted = pc.if_else(number, text, nothing).cast(pa.int64())
    text = pc.if_else(number, nothing, text)
    says = pc.match_substring_regex(text, _ZONED)
    with_zone = pc.if_else(says, text, nothing).cast(pa.timestamp("ns", "UTC"))
    without = pc.if_else(says, nothing, text).cast(pa.timestamp("ns"))
    return pc.coalesce(
        pc.multiply_checked(counted, _NANOSECONDS[unit]),
        with_zone.cast(pa.int64()),
        without.cast(pa.int64()),
    )


def _nanoseconds(field: TimestampField, array: pa.Array) -> pa.Array:
    kind = array.type
    if is_text(kind):
        return _from_text(pc.utf8_trim_whitespace(array), field.unit)
    if pa.types.is_timestamp(kind):  # with a zone it holds UTC all the same
        return array.cast(pa.timestamp("ns", kind.tz)).cast(pa.int64())
    if pa.types.is_date(kind):
        return array.cast(pa.timestamp("ns")).cast(pa.int64())
    if pa.types.is_floating(kind):  # integers with gaps
        array = pc.if_else(pc.is_nan(array), pa.scalar(None, kind), array)
    return pc.multiply_checked(array.cast(pa.int64()), _NANOSECONDS[field.unit])


def nanoseconds(field: TimestampField, array: pa.Array, first_row: int) -> Int64s:
    """A column of times as int64 nanoseconds since 1970 in UTC.

    Raises
    ------
    DataError
        For text that is no ISO 8601, times beyond 1677 to 2262, zones that are said or not said
        against ``zoned``, and other types.
    """
    array = plain(array)
    kind = array.type
    if pa.types.is_null(kind):
        return np.full(len(array), MISSING_TIME)
    known = (
        is_text(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_date(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
    )
    if not known:
        raise bad_type(field.name, kind, "times", "give timestamps, ISO 8601 text or numbers")
    if is_text(kind) and not pa.types.is_large_string(kind):
        array = array.cast(pa.large_string())
    _check_zones(field, array, first_row)
    try:
        found = _nanoseconds(field, array)
    except pa.ArrowInvalid:
        place = first_failing(array, lambda part: _nanoseconds(field, part))
        raise bad_value(
            field.name,
            first_row + place,
            value_at(array, place),
            "is no time from 1677 to 2262",
            "write 2024-05-31 12:30:00, make a time that stands for none missing, or say with "
            "TimestampField(unit=...) what numbers count",
        ) from None
    result: Int64s = pc.fill_null(found, MISSING_TIME).to_numpy(zero_copy_only=False)
    return result


def _cycle(length: int) -> npt.NDArray[np.float32]:
    """Sine and cosine of each step round a cycle, (length, 2)."""
    angle = 2 * np.pi * np.arange(length) / length
    return np.stack([np.sin(angle), np.cos(angle)], axis=1).astype(np.float32)


def cyclic_features(field: TimestampField, times: Int64s) -> npt.NDArray[np.float32]:
    """Sines and cosines, (rows, 2 * cycles); zeros where the time is missing."""
    parts = []
    for cycle in field.cyclic:
        hours = times // _HOUR
        steps = hours % 24 if cycle == "hour" else (hours // 24 + 3) % 7  # 1970 began on Thursday
        features = _cycle(CYCLES[cycle])[steps]
        features[times == MISSING_TIME] = 0
        parts.append(features)
    return np.concatenate(parts, axis=1) if parts else np.zeros((len(times), 0), np.float32)
