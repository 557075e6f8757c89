# SPDX-License-Identifier: Apache-2.0
"""The manifest as it must be: every field, and what the fields say about one another.

What has passed ``checked`` can be used without a further thought: names are those of this layout,
sizes, shapes and checksums of a file fit each other, and shards fit their table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from hugectr.base.json_form import (
    UINT32,
    UINT64,
    Check,
    Unfit,
    any_of,
    boolean,
    integer,
    list_of,
    mapping,
    number,
    one_of,
    optional,
    record,
    text,
)
from hugectr.checkpoints.bfloat16 import BFLOAT16, ITEM_BYTES
from hugectr.checkpoints.shard_names import (
    index_parts,
    linked_file,
    linked_shards,
    segment_file,
    shard_file,
    shard_rows,
)

Manifest = dict[str, Any]

#: The first format whose tables may have rows in linked segments.
LINKED_FORMAT = 4

#: Running means were float32 in formats 1 and 2.
_STATISTICS = ("float32", "float64")
_BYTES = integer(0, 2**62)
_SHAPE = list_of(_BYTES, most=8)
_NAME = text()
_STATE = "state"
_ROWS_OF_FORMAT_1 = 1 << 16  # rows read in one go; its files have no chunks

#: Folders beside the checkpoint that a delta builds on: no way out of the parent.
_SIBLING = r"(?!\.{1,2}$)[^/\0]{1,255}"

_LEAF = any_of(text(), boolean, integer(-(2**63)), number(-1e300, 1e300))
_VALUE = any_of(_LEAF, list_of(any_of(_LEAF, list_of(_LEAF))))
_OPTIMIZER = mapping(text(), _LEAF)
#: What callbacks of fit() keep: plain values by name, by callback.
CALLBACKS = mapping(_NAME, mapping(_NAME, _LEAF))
_INPUT = record({"name": text(), "dim": integer()})
_LABELS = record({"name": list_of(text()), "dim": list_of(integer()), "group": text()})

#: Of new rows, where a table has one of its own.
_INITIALIZER = record({"type": text(), "up_bound": number(0.0)}, may_lack=("up_bound",))

#: What ``description.description_of`` returns.
_DESCRIPTION = record(
    {
        "label": any_of(_INPUT, _LABELS),
        "dense": _INPUT,
        "keys": one_of("uint32", "int64"),
        "precision": one_of("float32", "float16", "bfloat16"),
        "loss_scaling": optional(any_of(one_of("dynamic"), number(0.0))),
        "optimizer": _OPTIMIZER,
        "inputs": list_of(
            record(
                {"name": text(), "slots": integer(), "positions": list_of(integer(1))},
                may_lack=("positions",),
            )
        ),
        "tables": list_of(
            record(
                {
                    "name": text(),
                    "top": text(),  # tensor of its vectors; without it as the table is called
                    "type": text(),
                    "input": any_of(text(), list_of(text())),
                    "vec_size": integer(),
                    "combiner": text(),
                    "slot_sizes": list_of(integer()),
                    "optimizer": _OPTIMIZER,
                    "initializer": _INITIALIZER,
                    "vector_type": one_of("float32", "bfloat16"),
                },
                may_lack=("top", "initializer", "vector_type"),
            )
        ),
        "layers": list_of(
            record(
                {
                    "name": text(),
                    "type": text(),
                    "inputs": list_of(text()),
                    "outputs": list_of(text()),
                    "parameters": mapping(text(), _VALUE),
                }
            )
        ),
    }
)


def _file(version: int) -> Check:
    fields: dict[str, Check] = {
        "bytes": _BYTES,
        "dtype": one_of(*ITEM_BYTES),
        "shape": _SHAPE,
        "crc32": integer(0, UINT32) if version == 1 else list_of(integer(0, UINT32)),
    }
    if version > 1:
        fields["chunk_bytes"] = integer(1, 2**62)
    return record(fields)


#: A file of the schema of the data: its name in the folder ``schema``.
_SCHEMA_FILE = text(r"schema\.json|[0-9]{1,9}\.(known|offsets|text)\.[0-9a-f]{8}\.npy")
_SCHEMA_ENTRY = record(
    {
        "bytes": _BYTES,
        "chunk_bytes": integer(1, 2**62),
        "crc32": list_of(integer(0, UINT32)),
    },
    exact=True,
)


#: What a row that goes is known by.
_IDENTITY = ("key", "slot")


def _table(version: int) -> Check:
    fields: dict[str, Check] = {
        "name": _NAME,
        "rows": _BYTES,
        "vec_size": integer(1, 2**31),
        "parts": list_of(text(most=64), unique=True),
        "placement": text(most=64),
    }
    if version > 1:
        fields["chunk_rows"] = integer(1, 2**62)
        shard: dict[str, Check] = {"rows": _BYTES, "files": mapping(_NAME, _NAME)}
        if version >= LINKED_FORMAT:
            linked = record({"rows": _BYTES, "heads": list_of(integer(0, UINT32))})
            shard["linked"] = list_of(linked)
        fields["shards"] = list_of(record(shard, may_lack=("linked",)))
    # Tables of earlier versions, and converted ones, do not name their placement.
    return record(fields, may_lack=("placement",))


def _schema(version: int) -> Check:
    # A reader numbers its blocks through all epochs, in 64 bits.
    position = {"epoch": integer(0, UINT32)}
    position |= {name: integer(0, 2**62) for name in ("sample", "file", "record", "byte")}
    count = integer(0, 2**62)
    fields = {
        "format": integer(),
        "crc32": integer(0, UINT32),
        "model": _NAME,
        "step": integer(0, 10**10 - 1),  # the name of its folder has ten digits
        "seed": optional(integer(0, UINT64)),
        "data_position": optional(record(position, exact=True)),
        "learning_rate": optional(record({"step": count, "lr": number(0.0)}, exact=True)),
        "loss_scaling": optional(
            record(
                {"scale": number(2.0**-149), "good_steps": count, "skipped_steps": count},
                exact=True,
            )
        ),
        "frozen": list_of(_NAME, unique=True),
        "fit_epoch": count,
        "statistics": list_of(optional(_NAME)),
        "dense_tensors": list_of(record({"name": _NAME, "shape": _SHAPE})),
        "tables": list_of(_table(version)),
        # Of a delta: rows that went since what it builds on, a table of keys and slots each.
        "gone": list_of(_table(version)),
        "files": mapping(_NAME, _file(version)),
        "chain": list_of(text(_SIBLING), unique=True),
        "chain_crc32": list_of(integer(0, UINT32)),
        "run": optional(text("[0-9a-f]{32}")),
        "description": optional(_DESCRIPTION),
        "finite": optional(boolean),  # false: saved with values that are not
        # Later members of format 3, which earlier versions do not look at.
        "schema": mapping(_SCHEMA_FILE, _SCHEMA_ENTRY),
        "batchsize_eval": optional(integer(1, 2**31)),
        # Of a table, or "" for the dense network; of those that were frozen in some steps.
        "frozen_steps": mapping(_NAME, count),
        "callbacks": CALLBACKS,
        "collection": _OPTIMIZER,  # of tables without a model, what their states belong to
    }
    # Converted from the original layout there are no names of tensors; a full one has no chain.
    of_training = ("dense_tensors", "chain", "chain_crc32", "run", "description", "finite")
    later = ("callbacks", "schema", "batchsize_eval", "collection", "gone", "frozen_steps")
    return record(fields, may_lack=(*of_training, *later))


_SCHEMAS = {version: _schema(version) for version in (1, 2, 3, LINKED_FORMAT)}
FORMATS = tuple(_SCHEMAS)


def checked(manifest: Manifest, version: int) -> Manifest:
    """The manifest in the form of the newest format, every field of it checked.

    Raises
    ------
    Unfit
        Naming the field, what it is, and what is allowed.
    """
    _SCHEMAS[version]("", manifest)
    if version == 1:
        for index, table in enumerate(manifest["tables"]):
            table["chunk_rows"] = _ROWS_OF_FORMAT_1
            files = {part: f"table{index}.{part}" for part in table["parts"]}
            table["shards"] = [{"rows": table["rows"], "files": files}]
    for index, table in enumerate(manifest["tables"]):
        _check_table(f"tables[{index}]", index, table, version)
    _check_gone(manifest, version)
    _check_files(manifest, version)
    _check_schema(manifest.get("schema", {}))
    _check_dense(manifest)
    chain, sums = manifest.get("chain", []), manifest.get("chain_crc32", [])
    if len(chain) != len(sums):
        raise Unfit("chain_crc32", sums, f"one checksum for each of {len(chain)} checkpoints")
    return manifest


def _check_gone(manifest: Manifest, version: int) -> None:
    gone = manifest.get("gone", [])
    if gone and len(gone) != len(manifest["tables"]):
        raise Unfit("gone", f"{len(gone)} tables", f"one for each of {len(manifest['tables'])}")
    for index, table in enumerate(gone):
        where = f"gone[{index}]"
        wanted = [part for part in manifest["tables"][index]["parts"] if part in _IDENTITY]
        if table["parts"] != wanted:
            raise Unfit(f"{where}.parts", table["parts"], f"{wanted}, as of its table")
        _check_shards(where, index, table, version, "gone")


def _check_table(where: str, index: int, table: dict[str, Any], version: int) -> None:
    parts = table["parts"]
    states = [part for part in parts if part.startswith(_STATE)]
    wanted = ["key", *(["slot"] if "slot" in parts else []), "vector"]
    wanted += [f"{_STATE}{number}" for number in range(len(states))]
    wanted += [part for part in ("last_step", "score", "timed_score") if part in parts]
    if parts != wanted:
        allowed = "key, slot, vector, state0, ..., last_step, score or timed_score in order"
        raise Unfit(f"{where}.parts", parts, allowed)
    _check_shards(where, index, table, version, "table")


def _check_shards(where: str, index: int, table: dict[str, Any], version: int, kind: str) -> None:
    parts = table["parts"]
    shards = table["shards"]
    rows = sum(map(shard_rows, shards))
    if not shards or rows != table["rows"]:
        found = f"the {len(shards)} shards have {rows}"
        raise Unfit(f"{where}.rows", table["rows"], f"the rows of its shards; {found}")
    for number_, shard in enumerate(shards):
        if kind == "gone" and "linked" in shard:
            raise Unfit(f"{where}.shards[{number_}]", sorted(shard), "no linked rows")
        names = {
            part: f"table{index}.{part}"
            if version == 1
            else shard_file(index, part, number_, len(shards), kind)
            for part in parts
        }
        if shard["files"] != names:
            raise Unfit(f"{where}.shards[{number_}].files", shard["files"], f"{names}")


def _linked_files(
    index: int, table: dict[str, Any]
) -> Iterator[tuple[str, tuple[str, ...], tuple[int, ...] | None, int | None]]:
    """Those of a table's linked shards, as ``_wanted_files``."""
    for where, linked in linked_shards(index, table):
        for part in index_parts(table["parts"]):
            dtype = "int64" if part == "key" else "uint64"
            chunk = table["chunk_rows"] * ITEM_BYTES[dtype]
            yield linked_file(part, *where), (dtype,), (linked["rows"],), chunk
        for segment in range(len(linked["heads"])):
            yield segment_file(segment, *where), ("uint8",), None, None


def _kind(files: dict[str, Any], table: dict[str, Any], part: str) -> tuple[str, tuple[int, ...]]:
    """dtype of a part, and shape of one row of it."""
    if part.startswith(_STATE):
        # As many numbers as the vector has, or one; the first shard decides for all.
        first = files.get(table["shards"][0]["files"][part], {"shape": []})
        return "float32", (1 if first["shape"][1:] == [1] else table["vec_size"],)
    if part == "vector":
        first = files.get(table["shards"][0]["files"][part], {})  # it decides for all
        dtype = BFLOAT16 if first.get("dtype") == BFLOAT16 else "float32"
        return dtype, (table["vec_size"],)
    return ("uint64" if part in ("slot", "score", "timed_score") else "int64"), ()


def _wanted_files(
    manifest: Manifest,
) -> Iterator[tuple[str, tuple[str, ...], tuple[int, ...] | None, int | None]]:
    """Name, dtypes, shape (None: any vector) and bytes of a chunk (None: any) of every file."""
    yield "dense.weights", ("float32",), None, None
    yield "dense.states", ("float32",), None, None
    for index in range(len(manifest["statistics"])):
        for name in ("mean", "var"):
            yield f"statistics{index}.{name}", _STATISTICS, None, None
    for index, table in enumerate(manifest["tables"]):
        yield from _linked_files(index, table)
    for table in [*manifest["tables"], *manifest.get("gone", [])]:
        for shard in table["shards"]:
            for part, name in shard["files"].items():
                dtype, shape = _kind(manifest["files"], table, part)
                chunk = table["chunk_rows"] * ITEM_BYTES[dtype] * math.prod(shape)
                yield name, (dtype,), (shard["rows"], *shape), chunk


def _check_files(manifest: Manifest, version: int) -> None:
    files = manifest["files"]
    known = set()
    for name, dtypes, shape, chunk in _wanted_files(manifest):
        known.add(name)
        entry = files.get(name)
        if entry is None:
            raise Unfit("files", sorted(files), f"an object with {name!r}")
        where, found = f"files.{name}", entry["shape"]
        if entry["dtype"] not in dtypes:
            raise Unfit(f"{where}.dtype", entry["dtype"], " or ".join(dtypes))
        if shape is None:
            shape = (found[0] if len(found) == 1 else -1,)
        if found != list(shape):
            vectors = f" (the table has vectors of {shape[1]})" if shape[1:] > (1,) else ""
            raise Unfit(f"{where}.shape", found, f"{list(shape)}{vectors}")
        size = ITEM_BYTES[entry["dtype"]] * math.prod(shape)
        if entry["bytes"] != size:
            raise Unfit(f"{where}.bytes", entry["bytes"], f"{size}, as its shape says")
        if version > 1:
            step, count = entry["chunk_bytes"], len(entry["crc32"])
            if chunk is not None and step != chunk:
                raise Unfit(f"{where}.chunk_bytes", step, f"{chunk}, as chunk_rows says")
            if count != -(-size // step):
                raise Unfit(f"{where}.crc32", entry["crc32"], f"{-(-size // step)} checksums")
    if len(files) > len(known):
        raise Unfit("files", sorted(set(files) - known), "files of the tables and layers alone")


def _check_schema(files: dict[str, Any]) -> None:
    for name, entry in files.items():
        wanted = -(-entry["bytes"] // entry["chunk_bytes"])
        if len(entry["crc32"]) != wanted:
            raise Unfit(f"schema.{name}.crc32", entry["crc32"], f"{wanted} checksums")


def _check_dense(manifest: Manifest) -> None:
    files = manifest["files"]
    for index in range(len(manifest["statistics"])):
        mean, var = (files[f"statistics{index}.{name}"]["shape"] for name in ("mean", "var"))
        if mean != var:
            raise Unfit(f"files.statistics{index}.var.shape", var, f"{mean}, as of the mean")
    names = [name for name in manifest["statistics"] if name is not None]
    if len(set(names)) != len(names):
        raise Unfit("statistics", names, "names that come once")
    if "dense_tensors" not in manifest:
        return
    tensors = manifest["dense_tensors"]
    if len({tensor["name"] for tensor in tensors}) != len(tensors):
        raise Unfit("dense_tensors", tensors, "names that come once")
    (count,) = files["dense.weights"]["shape"]
    found = sum(math.prod(tensor["shape"]) for tensor in tensors)
    if found != count:
        raise Unfit("dense_tensors", f"{found} values", f"the {count} of dense.weights")
