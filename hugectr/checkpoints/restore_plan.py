# SPDX-License-Identifier: Apache-2.0
"""What a model would take of a checkpoint, worked out before anything of it changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hugectr.base import log
from hugectr.base.errors import InvalidArgument
from hugectr.checkpoints.chunks import Array
from hugectr.checkpoints.description import differences
from hugectr.checkpoints.manifest import Manifest, row_shape
from hugectr.checkpoints.merge import Link
from hugectr.checkpoints.rows import SCORES

if TYPE_CHECKING:
    from hugectr.checkpoints.state import TrainingState, Weighted

Statistics = list[tuple[str, Array, Array]]


@dataclass(frozen=True)
class TablePlan:
    """A table to be replaced: its number in the model and in the checkpoint, parts of a row."""

    own: int
    saved: int
    parts: Sequence[str]


@dataclass(frozen=True)
class Plan:
    """The state that a model is to have; tables but for their rows.

    Attributes
    ----------
    weights : ndarray
        Dense weights.
    states : ndarray or None
        Their optimizer states; None: as they begin.
    statistics : list of (layer, mean, var)
        Of every layer that has some.
    step, fit_epoch : int
    learning_rate, loss_scaling, data_position : dict or None
        None: the model keeps its own.
    frozen : list of str
    frozen_steps : dict of str to int or None
        Steps in which a table, or "" for the dense network, was frozen; None: as the model has it.
    tables : list of TablePlan
    taken, left : list of str
        What is taken of a checkpoint, and what is not, with the reason.
    schema : dict of str to bytes
        Files of the checkpoint's schema of the data; none: it has none.
    """

    weights: Array
    states: Array | None
    statistics: Statistics
    step: int
    learning_rate: Any
    loss_scaling: Any
    data_position: Any
    frozen: Sequence[str]
    fit_epoch: int
    frozen_steps: Mapping[str, int] | None = None
    tables: Sequence[TablePlan] = ()
    taken: Sequence[str] = field(default_factory=list)
    left: Sequence[str] = field(default_factory=list)
    schema: Mapping[str, bytes] = field(default_factory=dict)


def plan_of(fields: Mapping[str, Any], dense: Mapping[str, Array], **changes: Any) -> Plan:
    """All that a manifest and its dense files say, but for ``changes``."""
    values: dict[str, Any] = {
        "weights": dense["dense.weights"],
        "states": dense.get("dense.states"),
        "statistics": [
            (name, dense[f"statistics{i}.mean"], dense[f"statistics{i}.var"])
            for i, name in enumerate(fields["statistics"])
        ],
    }
    for name in ("step", "learning_rate", "loss_scaling", "data_position", "frozen", "fit_epoch"):
        values[name] = fields[name]
    values["frozen_steps"] = fields.get("frozen_steps", {})
    return Plan(**values | changes)


# --- all of it ------------------------------------------------------------------------------------


def strict_plan(state: TrainingState, links: Sequence[Link], dense: Mapping[str, Array]) -> Plan:
    """The plan to take all of a checkpoint of this very model.

    Raises
    ------
    InvalidArgument
        When it is of another model; lists every difference.
    """
    path, manifest = links[-1]
    found = layout_differences(state, manifest)
    if manifest.get("description") is not None:
        found = [*differences(manifest["description"], state.description()), *found]
    elif not found:
        _say_what_is_unknown(path)
    seed = manifest["seed"]
    if seed is not None and seed != state.session.seed():
        found.append(
            f"it was trained with seed {seed}, the model has seed {state.session.seed()}: new rows "
            "and dropout would not go on as they would have"
        )
    _refuse(
        found,
        f"{path} is of another model",
        "build the model that was saved, or take what fits with resume(path, strict=False)",
    )
    session = state.session
    own = [name for name, _, _ in session.network.non_trainables()]
    plan = plan_of(manifest, dense)
    named = _named(own, plan.statistics)
    tables = [
        TablePlan(
            index,
            index,
            [part for part in table.parts() if part in manifest["tables"][index]["parts"]],
        )
        for index, table in enumerate(session.tables())
    ]
    taken = "everything" if session.trains() else "everything but what only training needs"
    return replace(plan, statistics=named, tables=tables, taken=[taken])


def weights_plan(state: TrainingState, links: Sequence[Link], dense: Mapping[str, Array]) -> Plan:
    """The plan to take weights, running statistics and rows, and nothing of a training.

    Raises
    ------
    InvalidArgument
        When names, shapes or sizes of them differ from the model's; lists every difference.
    """
    path, manifest = links[-1]
    check_same_weights(state, path, manifest)
    session = state.session
    own = [name for name, _, _ in session.network.non_trainables()]
    saved = plan_of(manifest, dense)
    return Plan(
        weights=saved.weights,
        states=None,
        statistics=_named(own, saved.statistics),
        step=session.step(),
        learning_rate=None,
        loss_scaling=None,
        data_position=None,
        frozen=sorted(state.frozen()),
        fit_epoch=state.fit_epoch,
        tables=[
            TablePlan(index, index, list(without_states(table.parts())))
            for index, table in enumerate(session.tables())
        ],
        taken=["weights, running statistics and rows"],
    )


def check_same_weights(state: Weighted, path: Path, manifest: Manifest) -> None:
    """Refuse a checkpoint whose weights have other names, shapes or sizes than a model's.

    Raises
    ------
    InvalidArgument
        Listing every difference.
    """
    _refuse(
        layout_differences(state, manifest, with_states=False),
        f"{path} has other weights than the model",
        "build a model with the same layers and tables",
    )


def _named(own: Sequence[str], saved: Statistics) -> Statistics:
    """Running statistics by layer; the original layout does not name them (None): by order."""
    return [
        (ours if name is None else name, mean, var)
        for ours, (name, mean, var) in zip(own, saved, strict=True)
    ]


def _refuse(found: Sequence[str], what: str, way_out: str) -> None:
    """Raise the InvalidArgument that lists differences, if there are some."""
    if not found:
        return
    count = "1 difference" if len(found) == 1 else f"{len(found)} differences"
    lines = "\n  ".join(dict.fromkeys(found))
    raise InvalidArgument(f"{what} ({count}):\n  {lines}\n{way_out}")


def _say_what_is_unknown(path: Path) -> None:
    log.warning(
        f"{path} was written by an earlier version, or comes from the original layout: it does not "
        "say which graph and optimizers it is of; names, shapes and sizes are those of the model"
    )


def layout_differences(state: Weighted, manifest: Manifest, with_states: bool = True) -> list[str]:
    """What the sizes, names and shapes of a checkpoint say against its being of a model.

    Optimizer states count where the model trains, unless told otherwise.
    """
    session = state.session
    with_states = with_states and session.trains()
    found = []
    ours = state.table_names
    theirs = [table["name"] for table in manifest["tables"]]
    if theirs != ours:
        found.append(f"tables: checkpoint {theirs}, model {ours}")
    else:
        for index, table in enumerate(manifest["tables"]):
            a, b = (
                without_scores(parts)
                for parts in (saved_parts(manifest, index), session.table(index).parts())
            )
            if not with_states:
                a, b = without_states(a), without_states(b)
            if a != b:
                found.append(
                    f"rows of table {table['name']!r}: checkpoint {_shown(a)}, model {_shown(b)}"
                )
    found += _tensor_differences(manifest.get("dense_tensors"), own_tensors(state))
    dense = {"dense.weights": session.network.dense_weights()}
    if with_states:
        dense["dense.states"] = session.network.dense_optimizer_states()
    for what, values in dense.items():
        (count,) = manifest["files"][what]["shape"]
        if count != values.size:
            found.append(f"{what}: checkpoint {count} values, model {values.size}")
    return found + _statistics_differences(state, manifest)


def without_states(
    parts: Mapping[str, tuple[str, tuple[int, ...]]],
) -> dict[str, tuple[str, tuple[int, ...]]]:
    """What a model that does not train has of these parts of a row."""
    return {part: kind for part, kind in parts.items() if part in ("key", "slot", "vector")}


def without_scores(
    parts: Mapping[str, tuple[str, tuple[int, ...]]],
) -> dict[str, tuple[str, tuple[int, ...]]]:
    """These parts of a row but for its score, which a model may lack and a checkpoint too."""
    return {part: kind for part, kind in parts.items() if part not in SCORES}


def saved_parts(manifest: Manifest, index: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Parts of a row of a saved table."""
    table = manifest["tables"][index]
    return {part: row_shape(manifest, table, part) for part in table["parts"]}


def own_tensors(state: Weighted) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the dense weights of a model."""
    network = state.session.network
    return {name: tuple(network.weight_view(name, 0).shape) for name in network.weight_names()}


def _shown(parts: Mapping[str, tuple[str, tuple[int, ...]]]) -> str:
    (size,) = parts["vector"][1]
    named = [
        f"{part} (one number a row)" if shape == (1,) != (size,) else part
        for part, (_, shape) in parts.items()
    ]
    return f"{', '.join(named)} of {size}"


def _tensor_differences(
    tensors: Sequence[Mapping[str, Any]] | None, own: Mapping[str, tuple[int, ...]]
) -> list[str]:
    if tensors is None:
        return []
    saved = {tensor["name"]: tuple(tensor["shape"]) for tensor in tensors}
    found = []
    for name in [*saved, *(name for name in own if name not in saved)]:
        a, b = saved.get(name, "none"), own.get(name, "none")
        if a != b:
            found.append(f"dense tensor {name!r}: checkpoint {a}, model {b}")
    if not found and list(saved) != list(own):
        found.append(f"order of the dense tensors: checkpoint {list(saved)}, model {list(own)}")
    return found


def _statistics_differences(state: Weighted, manifest: Manifest) -> list[str]:
    own = state.session.network.non_trainables()
    saved = manifest["statistics"]
    sizes = [manifest["files"][f"statistics{i}.mean"]["shape"][0] for i in range(len(saved))]
    if len(saved) != len(own):
        return [f"running statistics: checkpoint of {len(saved)} layers, model of {len(own)}"]
    found = []
    for name, size, (ours, mean, _) in zip(saved, sizes, own, strict=True):
        if (ours if name is None else name, size) != (ours, mean.size):
            a, b = f"{name!r} ({size})", f"{ours!r} ({mean.size})"
            found.append(f"running statistics: checkpoint {a}, model {b}")
    return found
