# SPDX-License-Identifier: Apache-2.0
"""Columns of text that became categories, of which users are told that they look like more."""

import logging

import pyarrow as pa
import pytest

from hugectr.data import Schema
from hugectr.data.schema.hints import hint_of

NUMBERS = {
    "decimal comma": [f"{one},5" for one in range(50)],
    "thousands": [f"{one},234.50" for one in range(50)],
    "currency": [f"${one}.25" for one in range(50)],
    "behind": [f"{one}.25 €" for one in range(50)],
    "percent": [f"{one}%" for one in range(50)],
    "words": [*map(str, range(45)), "-", "?", "n/a", "none", "unknown"],
}
TIMES = {
    "american": [f"{1 + one % 12}/{1 + one % 28}/2024" for one in range(50)],
    "german": [f"{1 + one % 28:02}.{1 + one % 12:02}.2024 10:00" for one in range(50)],
}
WORDS = {
    "names": [f"shop {one}" for one in range(50)],
    "codes": [f"{one:05}" for one in range(50)],
    "addresses": [f"10.0.{one}.1" for one in range(50)],
    "numbered": [f"a{one}" for one in range(50)],
    "few": ["1,5", "2,5"] * 25,
    "gaps": ["", " "] * 25,
    "half": [*map(str, range(25)), *(f"x{one}" for one in range(25))],
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_that_nobody_reads(kind):
    assert "look like numbers" in hint_of("price", pa.array(NUMBERS[kind]))


def test_text_of_plain_numbers_needs_no_other_writing():
    """Of a frame with types: of a CSV file they would be numbers."""
    for text in ([*map(str, range(50))], [f"{one}.25" for one in range(50)]):
        hint = hint_of("item", pa.array(text))
        assert "they are text, so make them numbers (pandas: astype(float))" in hint
        assert "write 1234.5" not in hint
    assert "write 1234.5" in hint_of("price", pa.array(NUMBERS["currency"]))


@pytest.mark.parametrize("kind", TIMES)
def test_times_that_nobody_reads(kind):
    assert "look like times" in hint_of("when", pa.array(TIMES[kind]))


@pytest.mark.parametrize("kind", WORDS)
def test_words_are_words(kind):
    assert hint_of("word", pa.array(WORDS[kind])) == ""


def _said(path, **roles) -> list[str]:
    heard: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record.getMessage())

    listener = Listener()
    logging.getLogger("hugectr").addHandler(listener)
    try:
        Schema.infer(path, **roles)
    finally:
        logging.getLogger("hugectr").removeHandler(listener)
    return heard


def test_who_infers_is_told_and_who_says_it_is_not(tmp_path):
    rows = zip(NUMBERS["words"] * 2, NUMBERS["currency"] * 2, strict=True)
    (tmp_path / "a.csv").write_text("age,price\n" + "".join(f"{a},{p}\n" for a, p in rows))
    age, price = _said(tmp_path / "a.csv")
    assert "column 'age' was taken for categories" in age
    assert "others such as '-' do not" in age
    assert "'$0.25'" in price
    assert _said(tmp_path / "a.csv", categorical=["age", "price"]) == []
