# SPDX-License-Identifier: Apache-2.0
"""Whether all processes of a job have the same settings, and make the same calls."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hugectr.base.errors import InvalidArgument
from hugectr.processes.agreement import together
from hugectr.processes.group import ProcessGroup

#: Characters of a value that messages show.
_SHOWN = 120
_SAME_MODEL = "all processes of a job build the same model from the same settings"
_SAME_CALL = "all processes of a job make the same calls, with the same arguments"


@dataclass(frozen=True)
class Digest:
    """A value too large to be sent: what messages say of it, and what is compared."""

    said: str
    digest: str


def same_call(group: ProcessGroup, call: str, **arguments: Any) -> None:
    """An error on all processes where they do not all make this call, with these arguments.

    Collective. For calls that change what every process has a copy of, or whose answer is put
    together out of what all have: with other arguments on one of them the copies, or the answer,
    would be wrong without a word.

    Parameters
    ----------
    group : ProcessGroup
    call : str
        As users know it.
    **arguments
        Plain values and arrays.

    Raises
    ------
    InvalidArgument
        Names the first argument that is another one. Nothing has been done yet.
    CommError
        When another process is in another call: the job ends.
    """
    require_same(group, call, arguments, _SAME_CALL)


def work_of_same_call(
    group: ProcessGroup,
    call: str,
    work: Callable[[], Mapping[str, Any]],
    advice: str = _SAME_CALL,
) -> None:
    """As ``same_call``, of arguments that have to be made first; what fails is raised by all."""
    if group.size == 1:
        work()
        return
    _compare(group, call, work, advice)


def require_same(
    group: ProcessGroup, where: str, settings: Mapping[str, Any], advice: str = _SAME_MODEL
) -> None:
    """An error on all processes where these settings are not the same on all. Collective.

    Parameters
    ----------
    group : ProcessGroup
    where : str
        What messages call the call.
    settings : mapping
        Plain values, lists and mappings of them, and arrays.
    advice : str
        What messages end with.

    Raises
    ------
    InvalidArgument
        Names the first setting that is another one, the processes and both values.
    """
    if group.size > 1:
        _compare(group, where, lambda: settings, advice)


def _compare(
    group: ProcessGroup, where: str, made: Callable[[], Mapping[str, Any]], advice: str
) -> None:
    own: dict[str, str] = {}

    def digest() -> str:
        own.update(_flat("", made()))
        text = "\n".join(f"{name}={value}" for name, value in own.items())
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    digests = together(group, digest, call=where)
    if len(set(digests)) == 1:
        return
    # Only now: of a thousand tables they are a megabyte.
    found = [dict(pairs) for pairs in together(group, lambda: [list(one) for one in own.items()])]
    rank = next(rank for rank, digest in enumerate(digests) if digest != digests[0])
    first, other = found[0], found[rank]
    name = next(name for name in (*other, *first) if first.get(name) != other.get(name))
    said, other_said = _said(first, name), _said(other, name)
    if said == other_said:  # of long values the beginning, and of arrays the shape
        said, other_said = f"one {said}", f"another {said}"
    raise InvalidArgument(
        f"{where}: {name.lstrip('.')} is {said} on process 0 and {other_said} on process {rank}: "
        f"{advice}"
    )


def _said(found: Mapping[str, str], name: str) -> str:
    return found[name].partition(" #")[0] if name in found else "not there"


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Each plain value by its path; tables and layers by their names."""
    if isinstance(value, Mapping):
        for key in sorted(value):
            yield from _flat(f"{name}.{key}", value[key])
        return
    if isinstance(value, Sequence) and value and isinstance(value[0], Mapping):
        for i, one in enumerate(value):
            yield from _flat(f"{name}[{one.get('name', i)!r}]", one)
        return
    if isinstance(value, Sequence) and value and isinstance(value[0], np.ndarray):
        for i, one in enumerate(value):
            yield from _flat(f"{name}[{i}]", one)
        return
    if isinstance(value, np.ndarray) and value.size > _SHOWN:
        digest = hashlib.sha256(np.ascontiguousarray(value).data).hexdigest()
        value = Digest(f"array of {value.dtype} {value.shape}", digest)
    if isinstance(value, Digest):
        yield name, f"{value.said} #{value.digest}"
        return
    text = repr(value.tolist() if isinstance(value, np.ndarray) else value)
    if len(text) > _SHOWN:
        text = f"{text[:_SHOWN]}... #{hashlib.sha256(text.encode()).hexdigest()}"
    yield name, text
