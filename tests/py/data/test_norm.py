# SPDX-License-Identifier: Apache-2.0
"""The Norm writer against records put together one by one from the format's description."""

import struct

import numpy as np
import pytest

from hugectr.data import NormHeader, read_norm_header, write_file_list, write_norm


def expected_bytes(label, dense, slots, framed, i64):
    def record(payload):
        if not framed:
            return payload
        return struct.pack("<i", len(payload)) + payload + bytes([sum(payload) % 256])

    n = len(label)
    fields = (int(framed), n, label.shape[1], dense.shape[1], len(slots), 0, 0, 0)
    parts = [record(struct.pack("<8q", *fields))]
    for i in range(n):
        payload = label[i].astype("<f4").tobytes() + dense[i].astype("<f4").tobytes()
        for keys, rows in slots:
            own = keys[rows[i] : rows[i + 1]].astype("<i8" if i64 else "<u4")
            payload += struct.pack("<i", len(own)) + own.tobytes()
        parts.append(record(payload))
    return b"".join(parts)


def random_slots(rng, n, slots, fixed, i64):
    low, high = (-(2**62), 2**62) if i64 else (0, 2**32)
    result = []
    for s in range(slots):
        counts = np.full(n, s) if fixed else rng.integers(0, 4, n)
        rows = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        result.append((rng.integers(low, high, rows[-1]), rows))
    return result


@pytest.mark.parametrize("n", [0, 1, 7, 200])
@pytest.mark.parametrize("check", ["Sum", "None"])
@pytest.mark.parametrize("i64", [False, True])
@pytest.mark.parametrize("fixed", [False, True])
def test_bytes(tmp_path, n, check, i64, fixed):
    rng = np.random.default_rng()
    label = rng.random((n, 2), dtype=np.float32)
    dense = rng.random((n, 3), dtype=np.float32)
    slots = random_slots(rng, n, 4, fixed, i64)
    path = tmp_path / "new" / "x.data"
    write_norm(path, label, dense, slots, check, i64)
    assert path.read_bytes() == expected_bytes(label, dense, slots, check == "Sum", i64)
    assert read_norm_header(path) == NormHeader(check, n, 2, 3, 4)


def test_one_hot_array_and_chunks(tmp_path, monkeypatch):
    rng = np.random.default_rng()
    label, dense = rng.random(50, dtype=np.float32), rng.random((50, 1), dtype=np.float32)
    keys = rng.integers(0, 1000, (50, 6))
    rows = np.arange(51)
    slots = [(keys[:, s], rows) for s in range(6)]
    write_norm(tmp_path / "a", label, dense, keys)
    assert (tmp_path / "a").read_bytes() == expected_bytes(
        label[:, None], dense, slots, True, False
    )
    varying = random_slots(rng, 50, 3, False, False)
    write_norm(tmp_path / "b", label, dense, varying)
    monkeypatch.setattr("hugectr.data.norm._CHUNK_RECORDS", 7)
    write_norm(tmp_path / "c", label, dense, keys)
    write_norm(tmp_path / "d", label, dense, varying)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "c").read_bytes()
    assert (tmp_path / "b").read_bytes() == (tmp_path / "d").read_bytes()


def test_no_dense_and_no_slots(tmp_path):
    write_norm(tmp_path / "a", np.ones((2, 1)), None, [], "None")
    assert (tmp_path / "a").read_bytes()[64:] == struct.pack("<2f", 1, 1)


@pytest.mark.parametrize(
    ("slots", "i64", "text"),
    [
        (np.array([[2**32]]), False, "i64=True"),
        (np.array([[-1]]), False, "can not hold"),
        (np.array([[2**63]], dtype=np.uint64), True, "can not hold"),
        (np.array([[1.5]]), False, "integers"),
        (np.array([1]), False, "slot_num"),
        ([(np.array([1, 2]), [0, 1])], False, "slot 0"),
        ([(np.array([1]), [0, 1]), (np.array([1]), [1, 1])], False, "slot 1"),
    ],
)
def test_refused(tmp_path, slots, i64, text):
    with pytest.raises(ValueError, match=text):
        write_norm(tmp_path / "a", np.ones((1, 1)), None, slots, "Sum", i64)


def test_file_list_and_damaged_header(tmp_path):
    write_file_list(tmp_path / "lists" / "l.txt", ["a", tmp_path / "b"])
    assert (tmp_path / "lists" / "l.txt").read_text() == f"2\na\n{tmp_path / 'b'}\n"
    (tmp_path / "short").write_bytes(b"\0" * 40)
    with pytest.raises(ValueError, match="too few"):
        read_norm_header(tmp_path / "short")
    (tmp_path / "noise").write_bytes(b"\7" * 100)
    with pytest.raises(ValueError, match="Norm header"):
        read_norm_header(tmp_path / "noise")
