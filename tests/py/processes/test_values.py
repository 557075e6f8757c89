# SPDX-License-Identifier: Apache-2.0
"""What processes tell each other: the same values arrive, and other bytes are refused."""

import contextlib
import random
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from processes import job

from hugectr.base.errors import CommError, DataError
from hugectr.processes import agreement, values
from hugectr.processes.solo import SoloGroup

VALUES = [
    None, True, False, 0, -1, 255, -(1 << 63), (1 << 64) - 1, 1 << 500, 0.1, float("inf"), "", "é",
    "file\udcff", "\0", b"", b"\xff\0", Path("/a/b"), [], (), {}, [1, [2, (3, None)]],
    ("a", [b"b"]), {"a": {"b": [1.5]}, 7: "seven"},
    [(Path("x"), {"files": {"a": {"bytes": 4, "crc32": 1 << 31}}})],
]  # fmt: skip
DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", ">f4"]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_arrive_as_they_are(value):
    found = values.decode(values.encode(value))
    assert found == value
    assert type(found) is type(value)
    assert repr(found) == repr(value)  # true is not 1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 0, 3), (2, 3)])
def test_arrays_arrive_as_they_are(dtype, shape):
    array = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    found = values.decode(values.encode({"a": array}))["a"]
    np.testing.assert_array_equal(found, array)
    assert (found.shape, found.dtype) == (shape, np.dtype(dtype).newbyteorder("="))
    assert found.flags.writeable
    turned = values.decode(values.encode(array.T))
    np.testing.assert_array_equal(turned, array.T)


def test_numbers_of_numpy_arrive_as_pythons():
    found = values.decode(values.encode([np.int64(7), np.float32(0.5), np.bool_(True)]))
    assert [type(value) for value in found] == [int, float, bool]


def nested(depth):
    value = None
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, lambda: 1, 1j, np.array([object()]), np.array(["a"]), {(1,): 2}, 1 << 600,
     nested(values.MAX_DEPTH + 1), Exception("x"), np.zeros(2, "M8[s]"), {"a": [bytearray(2)]}],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_other_things_are_no_values(value):
    with pytest.raises(TypeError, match="processes share"):
        values.encode(value)


def test_the_deepest_arrives():
    assert values.decode(values.encode(nested(values.MAX_DEPTH))) == nested(values.MAX_DEPTH)


LENGTH = struct.Struct("<Q").pack


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"NN",
        b"I",
        b"I\0",
        b"I\xff",
        b"D1234567",
        b"S" + LENGTH(5) + b"four",
        b"S" + LENGTH(1) + b"\xff",
        b"B" + LENGTH((1 << 64) - 1),
        b"L" + LENGTH(1 << 40),
        b"L" + LENGTH(2) + b"N",
        b"M" + LENGTH(1) + b"NN",
        b"M" + LENGTH(2) + (b"S" + LENGTH(0) + b"N") * 2,
        b"A\xff\0",
        b"A\x0b\xff",
        b"A\x0b\x01" + LENGTH(1 << 60),
        b"A\x0b\x02" + LENGTH(1 << 62) + LENGTH(0),
        b"A\x0b\x02" + LENGTH(1 << 32) + LENGTH(1 << 32),
        (b"L" + LENGTH(1)) * 60_000 + b"N",
        b"[" * 60_000,
        b"\x80\x04N.",  # of another package
    ],
    ids=lambda data: data[:12].hex(),
)
def test_other_bytes_are_refused(data):
    with pytest.raises(ValueError):  # noqa: PT011 (the texts differ)
        values.decode(data)


def test_changed_bytes_are_read_or_refused_and_take_no_memory():
    whole = values.encode([VALUES, np.arange(40.0).reshape(4, 10)])
    draw = random.Random(1)
    tracemalloc.start()
    for _ in range(3000):
        data = bytearray(whole[: draw.randint(1, len(whole))] if draw.random() < 0.2 else whole)
        for _ in range(draw.randint(1, 4)):
            data[draw.randrange(len(data))] = draw.choice([0, 1, 0x7F, 0xFF, draw.randrange(256)])
        with contextlib.suppress(ValueError):
            values.decode(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


class Pair(SoloGroup):
    """This process twice, with something else in place of what the second one sends."""

    size = 2

    def __init__(self, second):
        super().__init__()
        self.second = second
        self.aborted = ""

    def all_gather(self, data, limit=None):
        return [data, self.second]

    def abort(self, reason):
        self.aborted = reason


@pytest.mark.parametrize("second", [b"\x80\x04N.", b"", b"N", b"[" * 60_000])
def test_a_report_that_is_none_ends_the_job(second):
    group = Pair(second)
    with pytest.raises(CommError, match="process 1 sent what is no report"):
        agreement.together(group, lambda: 1)
    assert "process 1" in group.aborted


def test_errors_of_all_kinds_reach_the_others():
    for error, text in [
        (DataError("bad"), "process 1: bad"),
        (FileNotFoundError(2, "No such file", "/a\udcff"), "process 1: No such file"),
        (OSError(5, "broken", b"/bytes"), "process 1: broken"),
        (KeyError("k"), "process 1: KeyError: 'k'"),
        (ValueError("y" * 100_000), "process 1: ValueError: yyy"),
    ]:
        report = values.encode({"error": agreement.describe(error)})
        assert len(report) < 50_000
        with pytest.raises(Exception, match=text) as caught:
            agreement.together(Pair(report), lambda: 1)
        if isinstance(error, OSError):
            assert type(caught.value) is type(error)
            assert caught.value.errno == error.errno


def test_a_result_that_can_not_be_shared_is_an_error_of_all():
    with pytest.raises(RuntimeError, match=r"process 0: TypeError: .* found set"):
        agreement.together(Pair(values.encode({"result": 1})), lambda: {1})


def test_seeds_of_the_protocol_fuzz_target_are_read_and_changed_ones_refused():
    """In a process of its own: the target fixes the nonces of its greetings."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import protocol_fuzz\n"
        "for name, seed in protocol_fuzz.seeds().items():\n"
        "    read = protocol_fuzz.TARGETS[seed[0]]\n"
        "    read(seed[1:])\n"
        "    try:\n"
        "        read(seed[1:-1] + bytes([seed[-1] ^ 0x81]))\n"
        "    except (OSError, ValueError):\n"
        "        print(name)\n"
    )
    folder = job.TESTS.parents[0] / "fuzz"
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)],
        env=job.environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["listen", "call", "messages", "exchange"]  # values have no sum
