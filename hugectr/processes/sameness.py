# SPDX-License-Identifier: Apache-2.0
"""Whether all processes of a job have the same settings."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from hugectr.base.errors import InvalidArgument
from hugectr.processes.agreement import together
from hugectr.processes.group import ProcessGroup

#: Characters of a value that messages show.
_SHOWN = 120


def require_same(group: ProcessGroup, where: str, settings: Mapping[str, Any]) -> None:
    """An error on all processes where these settings are not the same on all. Collective.

    Parameters
    ----------
    group : ProcessGroup
    where : str
        What messages call the call.
    settings : mapping
        Plain values, lists and mappings of them, and arrays.

    Raises
    ------
    InvalidArgument
        Names the first setting that is another one, the processes and both values.
    """
    if group.size == 1:
        return
    own = dict(_flat("", settings))
    text = "\n".join(f"{name}={value}" for name, value in own.items())
    digests = together(group, lambda: hashlib.sha256(text.encode()).hexdigest())
    if len(set(digests)) == 1:
        return
    # Only now: of a thousand tables they are a megabyte.
    found = [dict(pairs) for pairs in together(group, lambda: [list(one) for one in own.items()])]
    rank = next(rank for rank, digest in enumerate(digests) if digest != digests[0])
    first, other = found[0], found[rank]
    name = next(name for name in (*other, *first) if first.get(name) != other.get(name))
    raise InvalidArgument(
        f"{where}: {name.lstrip('.')} is {_said(first, name)} on process 0 and "
        f"{_said(other, name)} on process {rank}: all processes of a job build the same model "
        "from the same settings"
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
    text = repr(value.tolist() if isinstance(value, np.ndarray) else value)
    if len(text) > _SHOWN:
        text = f"{text[:_SHOWN]}... #{hashlib.sha256(text.encode()).hexdigest()}"
    yield name, text
