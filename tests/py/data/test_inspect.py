# SPDX-License-Identifier: Apache-2.0
"""What inspect_norm finds in data made to be found."""

import json
from pathlib import Path

import numpy as np
import pytest

from hugectr.data.inspect import format_report, inspect_norm
from hugectr.data.norm import write_file_list, write_norm

ROWS = 500


def _slots(rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    slots = []
    for low, high, most in ((0, 50, 3), (40, 90, 1), (200, 201, 1), (300, 400, 2)):
        counts = rng.integers(0 if most > 1 else 1, most + 1, ROWS)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        slots.append((rng.integers(low, high, offsets[-1]), offsets))
    return slots


@pytest.mark.parametrize("check", ["Sum", "None"])
@pytest.mark.parametrize("i64", [False, True])
def test_counts_and_warnings(
    check: str, i64: bool, tmp_path: Path, rng: np.random.Generator
) -> None:
    slots = _slots(rng)
    dense = rng.random((ROWS, 2)).astype(np.float32)
    dense[:, 1] = 4.0
    label = (rng.random(ROWS) < 0.3).astype(np.float32)
    halves = []
    for half, (begin, end) in enumerate(((0, 200), (200, ROWS))):
        part = [(k[r[begin] : r[end]], r[begin : end + 1] - r[begin]) for k, r in slots]
        halves.append(tmp_path / f"{half}.data")
        write_norm(halves[-1], label[begin:end], dense[begin:end], part, check, i64)
    write_file_list(tmp_path / "list.txt", halves)

    report = inspect_norm(tmp_path / "list.txt")
    assert (report.rows, report.rows_read, report.files) == (ROWS, ROWS, 2)
    assert report.key_type == ("int64" if i64 else "uint32")
    assert report.check == check
    assert report.label_rate[0] == pytest.approx(label.mean())
    for slot, (keys, offsets) in zip(report.slots, slots, strict=True):
        values, often = np.unique(keys, return_counts=True)
        assert slot.cardinality == len(values)
        assert slot.keys == len(keys)
        assert (slot.key_min, slot.key_max) == (values[0], values[-1])
        assert slot.top_key_share == pytest.approx(often.max() / len(keys))
        assert slot.hotness_mean == pytest.approx(np.diff(offsets).mean())
        assert slot.hotness_max == np.diff(offsets).max()
    assert [slot.overlaps for slot in report.slots] == [[1], [0], [], []]
    text = " | ".join(report.warnings)
    assert "slot 0 shares keys with slot 1" in text
    assert "slot 2 is constant" in text
    assert "dense 1 is constant" in text
    assert "slot 3" not in text
    assert json.loads(json.dumps(report.to_dict()))["rows"] == ROWS
    assert "slot 0 shares keys" in format_report(report)


def test_limit_reads_less_but_counts_all(tmp_path: Path, rng: np.random.Generator) -> None:
    write_norm(tmp_path / "a.data", rng.random(ROWS), None, _slots(rng))
    report = inspect_norm(tmp_path / "a.data", limit=100)
    assert (report.rows, report.rows_read) == (ROWS, 100)


def test_damage_is_named(tmp_path: Path, rng: np.random.Generator) -> None:
    path = tmp_path / "a.data"
    write_norm(path, rng.random(ROWS), None, _slots(rng))
    raw = bytearray(path.read_bytes())
    path.write_bytes(raw[:-7])
    with pytest.raises(ValueError, match=r"a\.data.*record 49\d"):
        inspect_norm(path)
    raw[-1] ^= 1
    path.write_bytes(raw)
    report = inspect_norm(path)
    assert report.bad_checksums == 1
    assert "wrong checksum" in report.warnings[-1]
    path.write_text("no data\n")
    with pytest.raises(ValueError, match="neither a Norm data file nor a file list"):
        inspect_norm(path)
