# SPDX-License-Identifier: Apache-2.0
"""Rows and states of tables as a ``state_dict()`` has them, looked at before anything changes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hugectr.base.errors import InvalidArgument, rejected
from hugectr.base.row_keys import check_row_keys
from hugectr.checkpoints.finite import nonfinite

if TYPE_CHECKING:
    from hugectr.torch.configs import TableConfig

#: A step is ten digits of a checkpoint's name.
MOST_STEPS = 10**10 - 1
_RESERVED_KEY = 2**63 - 1


def way_of_rows(state: Any) -> str:
    """How a collection's ``_extra_state`` has its rows.

    Returns
    -------
    str
        ``"elsewhere"``, ``"checkpoint"`` (``state["checkpoint"]`` is one) or ``"tables"``.

    Raises
    ------
    InvalidArgument
        When it is no collection's.
    """
    kind = state.get("hugectr_collection") if isinstance(state, dict) else None
    if not isinstance(kind, int) or kind != 1:
        raise InvalidArgument("state_dict: its tables are not those of a hugectr collection")
    where = state.get("rows")
    if isinstance(where, str) and where == "elsewhere":
        return "elsewhere"
    if "checkpoint" in state:
        path = state["checkpoint"]
        if not isinstance(path, str | os.PathLike):
            raise rejected("state_dict: checkpoint", path, "the path of a native checkpoint")
        return "checkpoint"
    return "tables"


def field_of(where: str, fields: Any, name: str) -> Any:
    """A field of a state, which has to be there."""
    if not isinstance(fields, Mapping):
        raise rejected(where, type(fields).__name__, f"a dict with {name!r}")
    if name not in fields:
        raise InvalidArgument(f"{where} has no {name!r}; it has {sorted(map(str, fields))}")
    return fields[name]


def optimizer_of(state: Mapping[str, Any], names: Any) -> dict[str, str]:
    """These settings of the optimizer that states belong to."""
    theirs = field_of("state_dict", state, "optimizer")
    found = {name: field_of("state_dict: optimizer", theirs, name) for name in names}
    for name, value in found.items():
        if not isinstance(value, str):
            raise rejected(f"state_dict: optimizer: {name}", value, "a string")
    return found


def checked_rows(
    rows: Any,
    config: TableConfig,
    parts: Mapping[str, Any],
    *,
    states: bool,
    finite: bool = True,
) -> dict[str, Any]:
    """Rows of a table as arrays on the host: ``keys``, ``vectors``, ``states``, ``last_step``.

    Parameters
    ----------
    rows : mapping
        As ``Rows.state`` returns them.
    config : TableConfig
    parts : mapping
        What a row of the table has, as the core says.
    states : bool
        Whether states of the optimizer are taken; without, ``states`` is empty.
    finite : bool
        Whether vectors and states have to be.

    Raises
    ------
    InvalidArgument
        Which names the table and the field.
    """
    where = f"table {config.name!r}"
    keys = _keys(where, field_of(where, rows, "keys"))
    dim = config.embedding_dim
    vectors = _floats(where, "vectors", field_of(where, rows, "vectors"))
    if vectors.shape != (len(keys), dim):
        raise InvalidArgument(
            f"{where}: vectors have shape {vectors.shape}, must be {(len(keys), dim)}: a row for "
            f"each of its keys, and embedding_dim is {dim}"
        )
    found: dict[str, Any] = {"keys": keys, "vectors": vectors, "states": [], "last_step": None}
    if states:
        found["states"] = _states(where, field_of(where, rows, "states"), len(keys), parts)
        found["last_step"] = _last_step(where, rows, len(keys), "last_step" in parts)
    for name, values in [
        ("vectors", vectors),
        *((f"state {i}", each) for i, each in enumerate(found["states"])),
    ]:
        if finite:
            _check_finite(f"{where}: {name}", keys, values, "load the state of an earlier step")
    return found


def checked_vectors(keys: Any, vectors: Any, config: TableConfig) -> dict[str, Any]:
    """Rows that somebody writes as arrays on the host: ``keys`` (n) int64 and ``vectors`` (n, d).

    Parameters
    ----------
    keys, vectors : tensors, arrays or sequences
        Vectors of real numbers.
    config : TableConfig

    Raises
    ------
    InvalidArgument
        Which names the table: of shapes and types that do not fit, keys that stand twice, and
        vectors that are not finite float32.
    """
    where = f"table {config.name!r}"
    if not isinstance(vectors, torch.Tensor | np.ndarray) and hasattr(vectors, "__array__"):
        vectors = np.asarray(vectors)  # of a data frame
    numbers = _on_host(f"{where}: vectors", vectors)
    if numbers.dtype.kind in "iu":
        numbers = numbers.astype(np.float32)
    found = checked_rows({"keys": keys, "vectors": numbers}, config, {}, states=False, finite=False)
    advice = "leave these rows out"
    _check_finite(f"{where}: vectors", found["keys"], found["vectors"], advice)
    return {"keys": found["keys"], "vectors": found["vectors"]}


def _check_finite(where: str, keys: Any, values: Any, advice: str) -> None:
    bad = nonfinite(values) if values.size else None
    if bad is not None:
        row = bad.first // values.shape[1]
        raise InvalidArgument(
            f"{where} has {bad.count} numbers that are NaN or infinite, the first of key "
            f"{keys[row]} (row {row}): {advice}"
        )


def _on_host(name: str, values: Any) -> Any:
    """A NumPy array of anything, tensors of a GPU included."""
    if not isinstance(values, torch.Tensor):
        if not isinstance(values, np.ndarray | list | tuple):
            raise rejected(name, type(values).__name__, "a tensor")
        if np.ma.is_masked(values):
            raise rejected(name, "a masked array", "a tensor, of which nothing is masked")
        try:
            return np.asarray(values)
        except ValueError:  # lists of several lengths
            raise rejected(name, values, "a tensor") from None
    if values.is_nested or values.layout != torch.strided or values.device.type == "meta":
        kind = "nested" if values.is_nested else f"{values.layout} on {values.device}"
        raise rejected(name, f"a tensor that is {kind}", "a dense tensor with values")
    if values.is_floating_point():
        values = values.to(torch.float32)  # NumPy has not all of torch's
    return values.detach().cpu().numpy()


def _keys(where: str, values: Any) -> Any:
    keys = check_row_keys(f"{where}: keys", _on_host(f"{where}: keys", values))
    if keys.size and keys.max() == _RESERVED_KEY:
        raise rejected(f"{where}: keys", _RESERVED_KEY, f"ints below {_RESERVED_KEY}")
    if (keys[1:] <= keys[:-1]).any():  # else they are ascending, as they are saved, each once
        ordered = np.sort(keys)
        twice = ordered[1:][ordered[1:] == ordered[:-1]]
        if twice.size:
            raise InvalidArgument(
                f"{where}: keys has key {twice[0]} more than once, and a table one row of it: "
                "leave the others out"
            )
    return keys


def _floats(where: str, name: str, values: Any) -> Any:
    array = _on_host(f"{where}: {name}", values)
    if array.dtype.kind != "f":
        raise rejected(f"{where}: {name}: dtype", str(array.dtype), "float32")
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(array, np.float32).reshape(array.shape)


def _states(where: str, values: Any, count: int, parts: Mapping[str, Any]) -> list[Any]:
    shapes = [(count, *shape) for name, (_, shape) in parts.items() if name.startswith("state")]
    if not isinstance(values, list | tuple) or len(values) != len(shapes):
        found = len(values) if isinstance(values, list | tuple) else type(values).__name__
        raise InvalidArgument(f"{where}: states must be a list of {len(shapes)}, found {found}")
    states = [_floats(where, f"state {i}", each) for i, each in enumerate(values)]
    for i, (state, shape) in enumerate(zip(states, shapes, strict=True)):
        if state.shape != shape:
            raise InvalidArgument(f"{where}: state {i} has shape {state.shape}, must be {shape}")
    return states


def _last_step(where: str, rows: Mapping[str, Any], count: int, wanted: bool) -> Any:
    """The step that last trained each row, of optimizers that count them."""
    if not wanted:
        if rows.get("last_step") is not None:
            raise InvalidArgument(
                f"{where}: it has last_step, which rows of its optimizer do not have"
            )
        return None
    name = f"{where}: last_step"
    found = check_row_keys(name, _on_host(name, field_of(where, rows, "last_step")))
    if found.shape != (count,):
        raise InvalidArgument(f"{name} has shape {found.shape}, must be {(count,)}")
    if found.size and (found.min() < 0 or found.max() > MOST_STEPS):
        worst = found.min() if found.min() < 0 else found.max()
        raise rejected(name, int(worst), f"integers from 0 to {MOST_STEPS}")
    return found
