# SPDX-License-Identifier: Apache-2.0
"""A Criteo conversion that goes on, while what it reads or keeps is no longer what it was."""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import hugectr
from hugectr import InvalidArgument
from hugectr.base import log
from hugectr.data import criteo
from hugectr.data.criteo import convert

SETTINGS = {"processes": 1, "progress": False, "min_count": 1, "part_bytes": 20_000}


def line(i):
    return "\t".join([str(i % 2), *[str(i % 7)] * 13, *[f"{i % 50:08x}"] * 26])


def write(path, rows):
    path.write_text("".join(row + "\n" for row in rows))
    return str(path)


def content(made):
    """All samples, whatever the format."""
    source = Path(made.source)
    if source.is_dir():
        table = pq.read_table(source)
        return np.stack([np.asarray(table[name]) for name in table.column_names], axis=1)
    return np.fromfile(source, "<u4").reshape(-1, 40)


def assert_as_from_fresh(made, inputs, tmp_path, format):
    fresh = convert(inputs, tmp_path / "fresh", format=format, **SETTINGS)
    assert made.slot_size_array == fresh.slot_size_array
    assert (made.rows, made.dropped) == (fresh.rows, fresh.dropped)
    np.testing.assert_array_equal(content(made), content(fresh))


def interrupt(monkeypatch, name, calls, *arguments, **settings):
    """Convert, and stop at such a call of a function of the conversion."""
    original, seen = getattr(criteo, name), []

    def stopped(*given):
        seen.append(1)
        if len(seen) == calls:
            raise KeyboardInterrupt
        return original(*given)

    with monkeypatch.context() as patched:
        patched.setattr(criteo, name, stopped)
        with pytest.raises(KeyboardInterrupt):
            convert(*arguments, **settings)


@pytest.mark.parametrize("format", ["raw", "parquet"])
def test_a_damaged_line_that_was_removed_is_no_row(tmp_path, format):
    """As its message says; counts of what was read behind it are of other lines then."""
    good = [line(i) for i in range(2000)]
    path = write(tmp_path / "day_0", [*good[:20], "damaged " * 200, *good[20:]])
    settings = SETTINGS | {"format": format}
    with pytest.raises(hugectr.DataError, match="remove it"):
        convert([path], tmp_path / "out", **settings)
    write(tmp_path / "day_0", good)
    made = convert([path], tmp_path / "out", **settings)
    assert made.rows == 2000
    assert_as_from_fresh(made, [path], tmp_path, format)


@pytest.mark.parametrize("format", ["raw", "parquet"])
@pytest.mark.parametrize("stage", ["_count_part", "_write"])
@pytest.mark.parametrize("rows", [150, 700])
def test_a_file_that_has_changed_is_counted_anew(tmp_path, monkeypatch, format, stage, rows):
    told = []
    monkeypatch.setattr(log, "warning", told.append)
    first = write(tmp_path / "day_0", [line(i) for i in range(500)])
    second = write(tmp_path / "day_1", [line(i) for i in range(300)])
    settings = SETTINGS | {"format": format}
    interrupt(monkeypatch, stage, 8, [first, second], tmp_path / "out", **settings)
    write(tmp_path / "day_0", [line(7 * i) for i in range(rows)])
    made = convert([first, second], tmp_path / "out", **settings)
    assert made.rows == rows + 300
    assert_as_from_fresh(made, [first, second], tmp_path, format)
    assert len(told) == 1
    assert f"{first} has changed" in told[0]


def test_a_file_that_has_not_changed_is_not_counted_again(tmp_path, monkeypatch):
    first = write(tmp_path / "day_0", [line(i) for i in range(500)])
    second = write(tmp_path / "day_1", [line(i) for i in range(300)])
    interrupt(monkeypatch, "_write", 1, [first, second], tmp_path / "out", **SETTINGS)
    write(tmp_path / "day_1", [line(i) for i in range(299)])
    counted, original = [], criteo.count

    def count(lines):
        counted.append(len(lines.label))
        return original(lines)

    monkeypatch.setattr(criteo, "count", count)
    assert convert([first, second], tmp_path / "out", **SETTINGS).rows == 799
    assert sum(counted) == 299


@pytest.mark.parametrize(
    ("rows", "keep_time", "said"),
    [
        (501, False, r"day_0 has changed.*had \d+ bytes, and has \d+.*convert again"),
        (500, False, r"day_0 has changed.*its time.*convert again"),
        (500, True, r"day_0: bytes 0 to 20000 are not those.*remove .*\.progress to start over"),
    ],
)
def test_a_file_that_changes_meanwhile_is_refused(tmp_path, monkeypatch, rows, keep_time, said):
    path = tmp_path / "day_0"
    write(path, [line(i) for i in range(500)])
    encoding = criteo._encoding
    before = path.stat()

    def change(*arguments):
        write(path, [line(i + 1) for i in range(rows)])
        times = (before.st_atime_ns, before.st_mtime_ns + (0 if keep_time else 1_000_000_000))
        os.utime(path, ns=times)
        return encoding(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(criteo, "_encoding", change)
        with pytest.raises(hugectr.DataError, match=said):
            convert([str(path)], tmp_path / "out", format="raw", **SETTINGS)
    if not keep_time:
        made = convert([str(path)], tmp_path / "out", format="raw", **SETTINGS)
        assert_as_from_fresh(made, [str(path)], tmp_path, "raw")


@pytest.mark.parametrize("format", ["raw", "parquet"])
def test_written_parts_that_are_gone_are_written_again(tmp_path, monkeypatch, format):
    path = write(tmp_path / "day_0", [line(i) for i in range(500)])
    settings = SETTINGS | {"format": format}
    interrupt(monkeypatch, "_write", 4, [path], tmp_path / "out", **settings)
    gone = "train.bin" if format == "raw" else "train/part-000000.parquet"
    (tmp_path / "out" / gone).unlink()
    made = convert([path], tmp_path / "out", **settings)
    assert_as_from_fresh(made, [path], tmp_path, format)


def test_parquet_of_an_earlier_conversion_goes_and_that_of_others_stays(tmp_path):
    inputs = (
        write(tmp_path / "many", map(line, range(600))),
        write(tmp_path / "few", map(line, range(40))),
    )
    settings = {"format": "parquet", "min_count": 1, "part_bytes": 1 << 14, "progress": False}
    for name, rows in zip(inputs, (600, 40), strict=True):
        made = convert([name], tmp_path / "out", processes=1, **settings)
        assert made.rows == rows
        assert pq.read_table(made.source).num_rows == rows
    orders = tmp_path / "out" / "train" / "orders.parquet"
    orders.write_bytes(b"precious")
    with pytest.raises(InvalidArgument, match=r"orders.parquet is of no conversion.*another"):
        convert([inputs[0]], tmp_path / "out", processes=1, **settings)
    assert orders.read_bytes() == b"precious"


def flip(whole):
    place = whole.index(b"\x93NUMPY") + 128  # where the values of an array begin
    return whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]


NAMES = ["settings.json", "files.json", "counts-train-0.npz", "encoding.npz"]
DAMAGES = {
    "cut": lambda whole: whole[:10],
    "half": lambda whole: whole[: len(whole) // 2],
    "empty": lambda whole: b"",
    "text": lambda whole: b"hi\n",
    "list": lambda whole: b"[1]\n",
    "no UTF-8": lambda whole: b"\xff\xfe",
    "deep": lambda whole: b"[" * 100_000,
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", NAMES)
def test_damage_of_what_is_kept_is_told_with_the_way_out(tmp_path, monkeypatch, name, damage):
    path = write(tmp_path / "day_0", [line(i) for i in range(300)])
    interrupt(monkeypatch, "_write", 2, [path], tmp_path / "out", **SETTINGS)
    state = tmp_path / "out" / ".progress"
    (state / name).write_bytes(DAMAGES[damage]((state / name).read_bytes()))
    with pytest.raises(hugectr.DataError) as caught:
        convert([path], tmp_path / "out", **SETTINGS)
    assert str(caught.value) == f"{state / name} is damaged: remove {state} to start over"


@pytest.mark.parametrize("name", NAMES[2:])
def test_a_flipped_bit_of_counts_is_damage(tmp_path, monkeypatch, name):
    path = write(tmp_path / "day_0", [line(i) for i in range(300)])
    interrupt(monkeypatch, "_write", 2, [path], tmp_path / "out", **SETTINGS)
    kept = tmp_path / "out" / ".progress" / name
    kept.write_bytes(flip(kept.read_bytes()))
    with pytest.raises(hugectr.DataError, match="is damaged"):
        convert([path], tmp_path / "out", **SETTINGS)


@pytest.mark.parametrize("files", [{}, {"files": [1], "parts": {}}, {"files": [], "parts": [1]}])
def test_odd_json_is_damage(tmp_path, monkeypatch, files):
    path = write(tmp_path / "day_0", [line(i) for i in range(300)])
    interrupt(monkeypatch, "_write", 2, [path], tmp_path / "out", **SETTINGS)
    (tmp_path / "out" / ".progress" / "files.json").write_text(json.dumps(files))
    with pytest.raises(hugectr.DataError, match=r"files\.json is damaged"):
        convert([path], tmp_path / "out", **SETTINGS)
