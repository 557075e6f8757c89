# SPDX-License-Identifier: Apache-2.0
"""Mutates data files and trains on them: FORMAT FIRST COUNT FOLDER.

Each input is a function of its format and number alone. The last line of the output is a JSON list
of those that were believed.
"""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from faults.small_data import COLUMNS, ROWS, arrays, model, raw_bytes, source, table, write
from hugectr.base.errors import DataError, InvalidArgument, OutOfMemory
from hugectr.data import write_norm

kind, first, count, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
SLOTS = COLUMNS.sparse["keys"]
HOSTILE = (math.nan, math.inf, -math.inf, 1e39, -1.0, 1.5, 3.4e38)


def flipped(data, rng):
    """A few bits, half of the time near one end."""
    low = rng.choice([0, max(0, len(data) - 3000)])
    high = len(data) if rng.random() < 0.5 else min(len(data), low + 200)
    for _ in range(rng.integers(1, 6)):
        data[rng.integers(low, high)] ^= 1 << rng.integers(0, 8)
    return data


def swapped(data, rng):
    """Two blocks change places."""
    size = int(rng.integers(1, len(data) // 3))
    a, b = sorted(rng.integers(0, len(data) - size, 2).tolist())
    data[a : a + size], data[b : b + size] = data[b : b + size], data[a : a + size]
    return data


def counted(data, rng):
    """Some 4 or 8 bytes become an absurd number."""
    at = int(rng.integers(0, min(len(data) - 8, 400)))
    number = int(rng.choice([-1, 0, 1, 2**31 - 1, 2**62, -(2**63)]))
    data[at : at + 8] = number.to_bytes(8, "little", signed=True)
    return data


BYTES = (
    flipped,
    swapped,
    counted,
    lambda data, rng: data[: rng.integers(0, len(data))],
    lambda data, rng: data + bytes(rng.integers(1, 400)),
    lambda data, rng: data + data,
    lambda data, rng: b"label,dense0,slot0\n" + b"1,0.5,7\n" * int(rng.integers(1, 400)),
    lambda data, rng: rng.bytes(int(rng.integers(1, 9000))),
    lambda data, rng: bytes(len(data)),
    lambda data, rng: raw_bytes(),
    lambda data, rng: b"PAR1" + bytes(data) + b"\xff\xff\xff\x7fPAR1",
    lambda data, rng: data[int(rng.integers(1, len(data))) :],
)


def values(rng):
    """Label, dense and keys with a few hostile values."""
    label, dense, keys = arrays()
    for _ in range(rng.integers(1, 4)):
        row, value = int(rng.integers(ROWS)), rng.choice(HOSTILE)
        if rng.random() < 0.5:
            label[row] = value
        else:
            dense[row, rng.integers(dense.shape[1])] = value
    if rng.random() < 0.3:
        keys[rng.integers(ROWS), 0] = 2**63 - 1  # reserved
    if rng.random() < 0.3:
        label[:] = rng.choice(HOSTILE)
    return label, dense, keys


def hostile_file(path, rng):
    """A well-formed file of bad values."""
    label, dense, keys = values(rng)
    if kind == "norm":
        write_norm(path, label, dense, keys, check="Sum", i64=True)
    else:
        words = [label[:, None].view("<u4"), dense.view("<u4"), (keys & 0xFFFFFFFF).astype("<u4")]
        path.write_bytes(np.concatenate(words, axis=1).tobytes())


def changed(rng):
    """A table with another type, nulls, lists or hostile values somewhere."""
    good = table()
    names = good.column_names
    name = names[rng.integers(len(names))]
    column = good[name].combine_chunks()
    some = pa.array(rng.random(ROWS) < rng.choice([0.01, 0.5, 1.0]))
    wild = pa.array(rng.choice(HOSTILE, ROWS))
    changes = (
        lambda: pa.compute.if_else(some, pa.scalar(None, column.type), column),
        lambda: pa.nulls(ROWS, column.type),
        lambda: column.cast(pa.string()),
        lambda: column.cast(pa.string()).dictionary_encode(),
        lambda: column.dictionary_encode(),
        lambda: pa.array([[v] for v in column.to_pylist()]),
        lambda: pa.array([[v] * 3 for v in column.to_pylist()]),
        lambda: pa.array([[[v]] for v in column.to_pylist()]),
        lambda: pa.array([{"a": v} for v in column.to_pylist()]),
        lambda: pa.compute.if_else(some, wild, column.cast(pa.float64())),
        lambda: pa.array(rng.integers(-(2**62), 2**62, ROWS)),
        lambda: pa.array(rng.integers(2**63, 2**64, ROWS, np.uint64)),
        lambda: pa.array([2**63 - 1] * ROWS),
        lambda: column.cast(pa.float64()).cast(pa.decimal128(38, 10), safe=False),
        lambda: column.cast(pa.int64(), safe=False).cast(pa.timestamp("us")),
        lambda: column.cast(pa.float32(), safe=False).cast(pa.float16()),
        lambda: column.cast(pa.string()).cast(pa.binary()),
        lambda: pa.array([b"\xff\xfe"] * ROWS),
    )
    choice = int(rng.integers(len(changes) + 3))
    if choice == len(changes):
        return good.drop_columns(name)
    if choice == len(changes) + 1:
        return good.append_column(name, column)
    if choice == len(changes) + 2:
        return good.slice(0, 0)
    return good.set_column(names.index(name), name, changes[choice]())


def hostile_parquet(path, rng):
    """A well-formed Parquet file of another shape, codec or encoding."""
    codec = str(rng.choice(["none", "snappy", "gzip", "zstd", "lz4", "brotli"]))
    pq.write_table(
        changed(rng),
        path,
        row_group_size=int(rng.choice([1, 7, 100, 1000])),
        compression=codec,
        use_dictionary=bool(rng.random() < 0.5),
        data_page_version=str(rng.choice(["1.0", "2.0"])),
        write_page_checksum=bool(rng.random() < 0.5),
        store_schema=bool(rng.random() < 0.5),
    )


def attempt(number):
    """What is wrong with how this input was taken, or nothing."""
    rng = np.random.default_rng([number, len(kind)])
    path = write(folder, kind)
    if number % 3 == 2:
        hostile_parquet(path, rng) if kind == "parquet" else hostile_file(path, rng)
    else:
        mutate = BYTES[number // 3 % len(BYTES)]
        path.write_bytes(mutate(bytearray(path.read_bytes()), rng))
    how = "skip" if number // 2 % 2 else "error"
    try:
        one = model(folder, kind, source(folder, kind), repeat=False, on_bad_data=how)
        found = []
        while one.train():
            found.append(one.get_current_loss())
        one.evaluate()
    except (DataError, InvalidArgument) as error:
        text = str(error)
        # The reserved key is found by the lookup plan, which names the table, sample and slot.
        named = any(word in text for word in (str(folder), "column", "max_bad_share", "'table'"))
        return "" if named else f"a message without a name: {text[:300]}"
    except OutOfMemory as error:
        return "" if str(error) else "out of memory without a word"
    bad = one.reader_metrics()["bad_samples"]
    read = len(found) * 96
    if how == "error" and bad:
        return f"{bad} samples were skipped though bad data is an error"
    if not found and kind != "parquet":
        return "a training of no step was taken for one"
    if read and bad >= read:
        return f"all {bad} samples were skipped"
    if not all(math.isfinite(loss) for loss in found):
        return f"losses {found}"
    return ""


wrong = []
for number in range(first, first + count):
    print(f"{kind} {number}", file=sys.stderr, flush=True)
    try:
        text = attempt(number)
    except BaseException as error:
        text = f"{type(error).__name__}: {error}"
    if text:
        wrong.append(f"{kind} {number}: {text}")
print(json.dumps(wrong))
