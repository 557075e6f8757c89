# SPDX-License-Identifier: Apache-2.0
"""Times with and without a zone: not taken for one another without a word."""

import datetime

import pyarrow as pa
import pytest

from hugectr.data import Schema, TimestampField
from hugectr.data.schema.values import RowError

HOURS = [f"2024-01-{day:02} {hour:02}:30:00" for day in (1, 2) for hour in range(24)]
ZONED = [time + "+02:00" for time in HOURS]
AS_TIMES = [datetime.datetime.fromisoformat(time) for time in HOURS]
OTHER = datetime.timezone(datetime.timedelta(hours=2))
FORMS = {
    "text": (HOURS, ZONED),
    "arrow": (
        pa.array(AS_TIMES, pa.timestamp("us")),
        pa.array([time.replace(tzinfo=OTHER) for time in AS_TIMES], pa.timestamp("us", "+02:00")),
    ),
}


def _schema(values):
    return Schema.infer({"t": values}, timestamp="t")


@pytest.mark.parametrize("role", [None, "t"])
@pytest.mark.parametrize("form", FORMS)
def test_what_is_found_is_kept(tmp_path, form, role):
    for zoned, values in zip((False, True), FORMS[form], strict=True):
        schema = Schema.infer({"t": values}, timestamp=role)
        assert schema.fields == (TimestampField("t", ("hour", "weekday"), zoned=zoned),)
        schema.save(tmp_path)
        assert Schema.load(tmp_path).fields == schema.fields


@pytest.mark.parametrize("fitted", FORMS)
@pytest.mark.parametrize("given", FORMS)
def test_the_other_kind_is_named(fitted, given):
    for kind, word in ((0, "says a zone"), (1, "says no zone")):
        schema = _schema(FORMS[fitted][kind])
        right = schema.encode({"t": FORMS[given][kind]})
        assert right.timestamps["t"][1] - right.timestamps["t"][0] == 3600 * 10**9
        wrong = FORMS[given][1 - kind]
        with pytest.raises(RowError, match=rf"column 't', row 0 .*{word}.*zoned=None"):
            schema.encode({"t": wrong})


def test_a_mixed_column_is_named_by_its_first_odd_row():
    mixed = {"t": [*ZONED[:3], *HOURS[3:]]}
    schema = _schema(mixed["t"])
    with pytest.raises(RowError, match=r"row 3 .*'2024-01-01 03:30:00' says no zone"):
        schema.encode(mixed)


def test_whoever_says_so_has_both_as_utc():
    schema = Schema([TimestampField("t", ("hour",))]).fit({"t": HOURS})
    found = schema.encode({"t": [HOURS[5], ZONED[5], None, "2024-01-01"]}).timestamps["t"]
    assert found[0] - found[1] == 2 * 3600 * 10**9


def test_dates_numbers_and_gaps_have_no_zone():
    for values in (["2024-01-01", "2024-01-02"], [datetime.date(2024, 1, 1)] * 2, [1, 2]):
        assert _schema(values).fields[0].zoned is None
    for schema in map(_schema, (HOURS, ZONED)):
        schema.encode({"t": ["2024-01-01", None, "1700000000"]})
        schema.encode({"t": pa.nulls(2)})
        schema.encode({"t": pa.array([None], pa.timestamp("s", "UTC"))})


def test_zones_of_hours_alone_are_zones():
    """As PostgreSQL writes them."""
    short = [time + "+02" for time in HOURS]
    schema = _schema(short)
    assert schema.fields[0].zoned is True
    times = schema.encode({"t": short}).timestamps["t"]
    assert times.tolist() == _schema(ZONED).encode({"t": ZONED}).timestamps["t"].tolist()
