# SPDX-License-Identifier: Apache-2.0
"""A schema in a folder: ``schema.json`` and arrays in .npy files, which nothing in them can run.

What is read is taken for hostile: fields are checked one by one, a file counts only with the bytes
and the checksum that ``schema.json`` says, and no array is larger than its file.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields as dataclass_fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hugectr.base.errors import DataError, InvalidArgument
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
from hugectr.base.places import folder_place
from hugectr.base.regular_file import read_bounded
from hugectr.data.schema.counts import Categories
from hugectr.data.schema.fields import CYCLES, KINDS, UNITS, CategoricalField, Field
from hugectr.data.schema.fit import State, learns
from hugectr.data.schema.keys import LARGEST_KEY
from hugectr.data.schema.moments import Moments

if TYPE_CHECKING:
    from hugectr.data.schema.schema import Schema

VERSION = 1
DESCRIPTION = "schema.json"
_LARGEST = 256 << 20
_FLOAT64 = 1.7976931348623157e308
_COUNT = integer(0, 2**62)
_VALUE = number(-_FLOAT64, _FLOAT64)

_CATEGORICAL: dict[str, Check] = {
    "values": optional(one_of("text", "numbers")),
    "min_count": integer(1, 2**62),
    "max_known": integer(0, 2**40),
    "vocabulary": boolean,
}
_LIST = _CATEGORICAL | {
    "separator": optional(text()),
    "max_length": optional(integer(1, 1 << 20)),
}
#: What each kind of field has besides its name.
_SETTINGS: dict[str, dict[str, Check]] = {
    "label": {},
    "dense": {
        "fill": any_of(one_of("mean", "median"), _VALUE),
        "indicator": boolean,
        "scaling": one_of("standard", "min-max", "none"),
        "log": boolean,
    },
    "categorical": _CATEGORICAL,
    "list": _LIST,
    "sequence": _LIST | {"target": text()},
    "weight": {},
    "timestamp": {
        "cyclic": list_of(one_of(*CYCLES), unique=True),
        "unit": one_of(*UNITS),
        "zoned": boolean,
    },
    "group": {},
    "ignored": {"reason": text()},
}
#: Not written where it is None: so were schemas before there was one.
_MAY_LACK = ("target", "zoned")
_MOMENTS = record(
    {"rows": _COUNT, "missing": _COUNT, "median": optional(_VALUE)}
    | dict.fromkeys(("minimum", "maximum", "mean", "mean_scaled", "deviation"), _VALUE),
    exact=True,
)
_FILE_NAME = text(r"[0-9]{1,9}\.(known|offsets|text)\.[0-9a-f]{8}\.npy")
_CATEGORIES = record(
    {
        "values": one_of("text", "numbers"),
        "rows": _COUNT,
        "missing": _COUNT,
        "distinct": _COUNT,
        "longest": integer(0, 2**31),
        "known": optional(_FILE_NAME),
        "offsets": optional(_FILE_NAME),
        "text": optional(_FILE_NAME),
    },
    exact=True,
)


def _field(where: str, value: Any) -> None:
    record({"kind": one_of(*_SETTINGS)})(where, dict(value) if type(value) is dict else value)
    learnt = _CATEGORIES if issubclass(KINDS[value["kind"]], CategoricalField) else _MOMENTS
    fields: dict[str, Check] = {"kind": text(), "name": text(), "state": optional(learnt)}
    record(fields | _SETTINGS[value["kind"]], _MAY_LACK, exact=True)(where, value)


_DESCRIPTION = record(
    {
        "version": integer(VERSION, VERSION),
        "crc32": integer(0, UINT32),
        "seed": integer(0, UINT64),
        "fitted": boolean,
        "fields": list_of(_field),
        "files": mapping(
            _FILE_NAME, record({"bytes": _COUNT, "crc32": integer(0, UINT32)}, exact=True)
        ),
    },
    exact=True,
)

_Files = dict[str, bytes]


def _npy(values: npt.NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, values, allow_pickle=False)
    return file.getvalue()


def _kept(files: _Files, place: int, part: str, values: npt.NDArray[Any]) -> str:
    content = _npy(values)
    name = f"{place}.{part}.{zlib.crc32(content):08x}.npy"
    files[name] = content
    return name


def _learnt(place: int, state: State | None, files: _Files) -> dict[str, Any] | None:
    if state is None:
        return None
    if isinstance(state, Moments):
        return asdict(state)
    names: dict[str, Any] = {"known": None, "offsets": None, "text": None}
    if state.known is not None:
        names["known"] = _kept(files, place, "known", state.known)
    if state.words is not None:
        words = [word.encode() for word in state.words]
        ends = np.cumsum([0, *map(len, words)], dtype=np.int64)
        names["offsets"] = _kept(files, place, "offsets", ends)
        names["text"] = _kept(files, place, "text", np.frombuffer(b"".join(words), np.uint8))
    plain = {name: getattr(state, name) for name in ("rows", "missing", "distinct", "longest")}
    return {"values": state.values, **plain, **names}


def _described(schema: Schema, files: _Files) -> dict[str, Any]:
    places = {field.name: place for place, field in enumerate(schema.fields)}
    fields = []
    for field in schema.fields:
        settings = asdict(field)
        for name in _MAY_LACK:
            if settings.get(name, "") is None:
                del settings[name]
        # What two columns share is in one file.
        place = places[field.owner if isinstance(field, CategoricalField) else field.name]
        learnt = _learnt(place, schema.state.get(field.name) if learns(field) else None, files)
        fields.append({"kind": field.kind, **settings, "state": learnt})
    return {
        "version": VERSION,
        "seed": schema.seed,
        "fitted": schema.fitted,
        "fields": fields,
        "files": {
            name: {"bytes": len(content), "crc32": zlib.crc32(content)}
            for name, content in files.items()
        },
    }


def _sum(description: dict[str, Any]) -> int:
    rest = {name: value for name, value in description.items() if name != "crc32"}
    return zlib.crc32(json.dumps(rest, sort_keys=True).encode())


def to_json(schema: Schema) -> str:
    """``schema.json`` as text; the files of keys are named in it."""
    description = _described(schema, {})
    return json.dumps(description | {"crc32": _sum(description)}, indent=1)


def _write(path: Path, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def content(schema: Schema) -> dict[str, bytes]:
    """The files of a schema by name, ``schema.json`` last: what ``restored`` takes."""
    files: _Files = {}
    description = _described(schema, files)
    text = json.dumps(description | {"crc32": _sum(description)}, indent=1)
    return files | {DESCRIPTION: text.encode()}


def save(schema: Schema, folder: str | os.PathLike[str]) -> None:
    """Write a schema; the description comes last and takes the place of the one before at once."""
    place = folder_place("Schema.save: folder", folder)
    files = content(schema)
    description = files.pop(DESCRIPTION)
    before = {path.name for path in place.glob("*.npy")}
    for name, values in files.items():
        _write(place / name, values)
    temporary = place / (DESCRIPTION + ".tmp")
    _write(temporary, description)
    temporary.replace(place / DESCRIPTION)
    for name in before - set(files):
        try:
            _FILE_NAME("", name)
            (place / name).unlink()
        except (Unfit, OSError):
            continue  # not one of ours, or gone


#: A file of a schema by its name, of at most so many bytes; ValueError or OSError for one that is
#: not there or has more.
_Read = Callable[[str, int], bytes]


class _Folder:
    """The files of a saved schema."""

    def __init__(self, read: _Read, files: dict[str, dict[str, int]]) -> None:
        self._read, self._files = read, files

    def array(self, name: str, dtype: type[np.generic]) -> npt.NDArray[Any]:
        """The vector of a file, of which each byte is checked.

        Raises
        ------
        ValueError, OSError
            When it is not what the description says.
        """
        if name not in self._files:
            raise Unfit("files", sorted(self._files), f"an object with {name!r}")
        entry = self._files[name]
        found = self._read(name, entry["bytes"])
        if len(found) != entry["bytes"]:
            raise ValueError(f"{name} has {len(found)} bytes, {DESCRIPTION} says {entry['bytes']}")
        if zlib.crc32(found) != entry["crc32"]:
            raise ValueError(f"the checksum of {name} is wrong")
        # The header is that of a vector of what is left of the file, or it is refused unread.
        width = np.dtype(dtype).itemsize
        header = len(_npy(np.empty(0, dtype)))
        count = max(len(found) - header, 0) // width
        values = np.frombuffer(found[header : header + count * width], dtype)
        if _npy(values) != found:
            raise ValueError(f"{name} is no .npy file of one row of {np.dtype(dtype).name}")
        return values


def _words(folder: _Folder, learnt: dict[str, Any], known: npt.NDArray[np.int64]) -> list[str]:
    if learnt["offsets"] is None or learnt["text"] is None:
        raise Unfit("offsets", learnt["offsets"], "a file, as of text")
    ends = folder.array(learnt["offsets"], np.int64)
    characters = folder.array(learnt["text"], np.uint8).tobytes()
    if len(ends) != len(known) + 1 or ends[0] != 0 or (np.diff(ends) < 0).any():
        raise ValueError(f"{learnt['offsets']} does not have the ends of {len(known)} words")
    if ends[-1] != len(characters):
        raise ValueError(f"{learnt['text']} has {len(characters)} bytes, its words {ends[-1]}")
    places = ends.tolist()
    return [characters[a:b].decode() for a, b in itertools.pairwise(places)]


def _categories(folder: _Folder, learnt: dict[str, Any]) -> Categories:
    known, words = None, None
    if learnt["known"] is not None:
        known = folder.array(learnt["known"], np.int64)
        inside = not len(known) or (known[0] >= 0 and known[-1] <= LARGEST_KEY)
        if not inside or (known[1:] <= known[:-1]).any():
            raise ValueError(f"{learnt['known']} has keys that do not ascend from 0")
        if learnt["offsets"] is not None or learnt["text"] is not None:
            words = _words(folder, learnt, known)
    return Categories(
        learnt["values"],
        learnt["rows"],
        learnt["missing"],
        learnt["distinct"],
        known,
        words,
        learnt["longest"],
    )


def _restored(field: dict[str, Any], folder: _Folder) -> tuple[Field, State | None]:
    kind, learnt = KINDS[field["kind"]], field["state"]
    settings = {one.name: field[one.name] for one in dataclass_fields(kind) if one.name in field}
    made = kind(**settings)
    if learnt is None:
        return made, None
    if not learns(made):
        raise Unfit("state", learnt, f"null for a field of kind {made.kind}")
    if learnt["missing"] > learnt["rows"]:
        raise Unfit("state.missing", learnt["missing"], f"at most the {learnt['rows']} rows")
    if isinstance(made, CategoricalField):
        return made, _categories(folder, learnt)
    return made, Moments(**learnt)


def load(folder: str | os.PathLike[str]) -> Schema:
    """Read a schema; see ``Schema.load``."""
    place = Path(folder)

    def read(name: str, most: int) -> bytes:
        size = os.stat(place / name).st_size
        if name != DESCRIPTION and size != most:
            raise ValueError(f"{name} has {size} bytes, {DESCRIPTION} says {most}")
        return read_bounded(place / name, most)

    return _read_schema(f"the schema in {os.fspath(folder)!r}", read)


def restored(where: str, files: Mapping[str, bytes]) -> Schema:
    """The schema of files that ``content`` gave; checked as those of a folder are.

    Raises
    ------
    DataError
        When they are damaged, or of a later version; ``where`` says whose they are.
    """

    def read(name: str, most: int) -> bytes:
        if name not in files:
            raise ValueError(f"{name} is missing")
        return bytes(files[name])

    return _read_schema(where, read)


def _read_schema(where: str, read: _Read) -> Schema:
    from hugectr.data.schema.schema import Schema

    try:
        description = json.loads(read(DESCRIPTION, _LARGEST))
        if type(description) is not dict or type(description.get("version")) is not int:
            raise ValueError("it is no object with a version")
        if description["version"] != VERSION:
            raise ValueError(
                f"it has version {description['version']}, this package reads {VERSION}: update "
                "hugectr"
            )
        if _sum(description) != description.get("crc32"):
            raise ValueError("its checksum is wrong")
        _DESCRIPTION("", description)
        files = _Folder(read, description["files"])
        found = [_restored(field, files) for field in description["fields"]]
        state = {field.name: learnt for field, learnt in found if learnt is not None}
        fields = [field for field, _ in found]
        if description["fitted"] != all(f.name in state for f in fields if learns(f)) and state:
            raise Unfit("fitted", description["fitted"], "what the states of the fields say")
        return Schema._restored(
            fields, description["seed"], state if description["fitted"] else None
        )
    except (OSError, ValueError, RecursionError, MemoryError, InvalidArgument) as error:
        raise DataError(
            f"{where} can not be read ({error}): take a copy of it, or fit it again"
        ) from error
