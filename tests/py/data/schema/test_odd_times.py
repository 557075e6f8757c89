# SPDX-License-Identifier: Apache-2.0
"""Times that Arrow holds and Python has no object for: named by column and row all the same."""

import datetime

import pyarrow as pa
import pytest

from hugectr.base.errors import DataError
from hugectr.data import CategoricalField, GroupField, LabelField, ListField, Schema, TimestampField

LABEL = [0, 1, 0, 1]
ODD = {
    "days": (pa.date32(), pa.int32(), 2**31 - 1),
    "days before": (pa.date32(), pa.int32(), -(2**31)),
    "milliseconds": (pa.date64(), pa.int64(), 86_400_000 * 10**11),
    "seconds": (pa.timestamp("s"), pa.int64(), 2**63 - 1),
    "seconds of a zone": (pa.timestamp("s", "UTC"), pa.int64(), -(2**63) + 1),
    "no zone": (pa.timestamp("s", "Not/AZone"), pa.int64(), 2**62),
}


def column(kind, storage, value):
    return pa.array([None, 0, value, value], storage).view(kind)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ODD)
def test_a_time_beyond_all_years_is_named(name, packed):
    times = column(*ODD[name])
    times = times.dictionary_encode() if packed else times
    table = pa.table({"t": times, "clicked": LABEL})
    schema = Schema([TimestampField("t"), LabelField("clicked")]).fit(table)
    said = rf"column 't', row 2 \(from 0\): '{ODD[name][2]} \(.*\)' is no time from 1677 to 2262"
    with pytest.raises(DataError, match=said):
        schema.encode(table)


def test_a_time_that_says_a_zone_is_named_whatever_the_zone():
    plain = Schema.infer({"t": [datetime.datetime(2024, 1, 1)] * 4}, timestamp="t")
    times = pa.array([0] * 4).view(pa.timestamp("us", "Not/AZone"))
    with pytest.raises(DataError, match=r"column 't', row 0 .*Not/AZone.* says a zone"):
        plain.encode(pa.table({"t": times}))


@pytest.mark.parametrize("zone", ["Not/AZone", "+99:99"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("vocabulary", [False, True])
def test_categories_of_a_zone_that_nobody_knows_are_named(zone, packed, vocabulary):
    times = pa.array([None, 5, 5, 6]).view(pa.timestamp("us", zone))
    times = times.dictionary_encode() if packed else times
    table = pa.table({"t": times, "clicked": LABEL})
    schema = Schema([CategoricalField("t", vocabulary=vocabulary), LabelField("clicked")])
    with pytest.raises(DataError, match=r"column 't', row 1 .*'5 \(.*as text; give .* a zone"):
        schema.fit(table)
    fitted = Schema([CategoricalField("t"), LabelField("clicked")]).fit(
        pa.table({"t": ["a", "b", "a", "b"], "clicked": LABEL})
    )
    with pytest.raises(DataError, match=r"column 't', row 1 .*as text"):
        fitted.encode(table)


def test_lists_and_groups_of_such_a_zone_are_named():
    times = pa.array([5, 6, 7, 8]).view(pa.timestamp("us", "Not/AZone"))
    lists = pa.ListArray.from_arrays(pa.array([0, 0, 0, 3, 4], pa.int32()), times)
    with pytest.raises(DataError, match=r"column 't', row 2 "):
        Schema([ListField("t")]).fit(pa.table({"t": lists}))
    schema = Schema([GroupField("t"), LabelField("clicked")])
    table = pa.table({"t": times, "clicked": LABEL})
    with pytest.raises(DataError, match=r"column 't', row 0 "):
        schema.fit(table).encode(table)


def test_nothing_but_missing_times_of_such_a_zone_are_missing():
    nothing = pa.nulls(4, pa.timestamp("us", "Not/AZone"))
    table = pa.table({"t": nothing, "clicked": LABEL})
    encoded = Schema([CategoricalField("t"), LabelField("clicked")]).fit(table).encode(table)
    assert encoded is not None


def test_a_type_that_is_no_text_is_named():
    spans = pa.array([(1, 2, 3)] * 4, pa.month_day_nano_interval())
    with pytest.raises(DataError, match="column 't' has Arrow type month_day_nano_interval"):
        Schema([CategoricalField("t")]).fit(pa.table({"t": spans}))
