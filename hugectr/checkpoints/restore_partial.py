# SPDX-License-Identifier: Apache-2.0
"""What another model can take of a checkpoint: by name and shape what fits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hugectr.checkpoints.chunks import Array
from hugectr.checkpoints.description import Description
from hugectr.checkpoints.manifest import Manifest
from hugectr.checkpoints.merge import Link
from hugectr.checkpoints.restore_plan import (
    Plan,
    Statistics,
    TablePlan,
    own_tensors,
    plan_of,
    saved_parts,
    without_scores,
)
from hugectr.checkpoints.rows import SCORES

if TYPE_CHECKING:
    from hugectr.checkpoints.state import TrainingState


class _Account:
    """What is taken and what is left, as it is found out."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.left: list[str] = []

    def say(self, what: str, against: str) -> bool:
        """Note something; ``against`` is why it is left, empty when it is taken."""
        if against:
            self.left.append(f"{what}: {against}")
        else:
            self.taken.append(what)
        return not against


def partial_plan(state: TrainingState, links: Sequence[Link], dense: Mapping[str, Array]) -> Plan:
    """The plan to take what fits, and to keep the model's own else.

    Dense weights go by name and shape, their optimizer states with them when the optimizer is the
    same; tables by name, kind of key and vector size, the states of their rows likewise; running
    statistics by layer and size. Step, epoch and schedule are the checkpoint's.
    """
    _, manifest = links[-1]
    saved, own = manifest.get("description"), state.description()
    account = _Account()
    weights, states = _dense(state, manifest, dense, saved, own, account)
    tables = _tables(state, manifest, saved, own, account)
    statistics = _statistics(state, manifest, dense, account)
    names = {"", *state.table_names}
    for name in manifest["frozen"]:
        what = f"frozen {name!r}" if name else "frozen dense network"
        account.say(what, "" if name in names else "the model has no such table")
    changes: dict[str, Any] = {"frozen": [name for name in manifest["frozen"] if name in names]}
    scaling = saved is not None and all(
        saved[name] == own[name] for name in ("precision", "loss_scaling")
    )
    if manifest["loss_scaling"] is not None and not account.say(
        "loss scaling", "" if scaling else _because(saved, "the model computes in other numbers")
    ):
        changes["loss_scaling"] = None
    if manifest["seed"] not in (None, state.session.seed()):
        account.say("seed", f"{manifest['seed']}, the model keeps {state.session.seed()}")
    return plan_of(
        manifest,
        dense,
        weights=weights,
        states=states,
        tables=tables,
        statistics=statistics,
        taken=[*account.taken, f"step {manifest['step']}"],
        left=account.left,
        **changes,
    )


def _because(saved: Description | None, why: str) -> str:
    return why if saved is not None else "the checkpoint does not say what it was saved with"


def _without_states(state: TrainingState, saved: Description | None) -> str:
    if not state.session.trains():
        return "the model does not train"
    return _because(saved, "the model has another optimizer")


def _dense(
    state: TrainingState,
    manifest: Manifest,
    dense: Mapping[str, Array],
    saved: Description | None,
    own: Description,
    account: _Account,
) -> tuple[Array, Array]:
    """The model's weights and states with those of the checkpoint that fit."""
    weights = state.session.network.dense_weights().copy()
    states = state.session.network.dense_optimizer_states().copy()
    theirs = _places(
        {tensor["name"]: tuple(tensor["shape"]) for tensor in manifest.get("dense_tensors", [])}
    )
    ours = _places(own_tensors(state))
    their_states = _state_rows(dense["dense.states"], dense["dense.weights"])
    our_states = _state_rows(states, weights)
    same = saved is not None and saved["optimizer"]["type"] == own["optimizer"]["type"]
    with_states = same and len(their_states) == len(our_states)
    if "dense_tensors" not in manifest:
        account.say("dense weights", "the checkpoint does not name them")
    for name, (place, shape) in theirs.items():
        what = f"dense tensor {name!r} {shape}"
        if name not in ours:
            account.say(what, "the model has none of this name")
        elif account.say(what, "" if ours[name][1] == shape else f"the model's is {ours[name][1]}"):
            count, target = math.prod(shape), ours[name][0]
            weights[target : target + count] = dense["dense.weights"][place : place + count]
            if with_states:
                for row, source in zip(our_states, their_states, strict=True):
                    row[target : target + count] = source[place : place + count]
    for name, (_, shape) in ours.items():
        if name not in theirs and "dense_tensors" in manifest:
            account.say(f"dense tensor {name!r} {shape}", "the checkpoint has none of this name")
    if len(their_states):
        account.say("dense optimizer states", "" if with_states else _without_states(state, saved))
    return weights, our_states.reshape(-1) if len(our_states) else states


def _places(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, tuple[int, ...]]]:
    """Where each tensor begins in the flat weights, and its shape."""
    found, place = {}, 0
    for name, shape in shapes.items():
        found[name] = place, shape
        place += math.prod(shape)
    return found


def _state_rows(states: Array, weights: Array) -> Array:
    """Flat states as one row a state; all weights' first states come first."""
    if weights.size == 0 or states.size % weights.size:
        return states[:0].reshape(0, weights.size)
    return states.reshape(-1, weights.size)


def _tables(
    state: TrainingState,
    manifest: Manifest,
    saved: Description | None,
    own: Description,
    account: _Account,
) -> list[TablePlan]:
    ours = {name: i for i, name in enumerate(state.table_names)}
    theirs = {table["name"]: i for i, table in enumerate(manifest["tables"])}
    found = []
    for name, number in theirs.items():
        what = f"rows of table {name!r}"
        if name not in ours:
            account.say(what, "the model has no such table")
            continue
        index = ours[name]
        a, b = saved_parts(manifest, number), state.session.table(index).parts()
        against = ""
        if a["vector"] != b["vector"]:
            against = f"vectors of {a['vector'][1][0]}, the model's are of {b['vector'][1][0]}"
        elif ("slot" in a) != ("slot" in b):
            against = (
                "a row is known by its slot and key in one of the two, by its key in the other"
            )
        elif saved is not None and saved["keys"] != own["keys"]:
            against = f"keys are {saved['keys']}, the model's {own['keys']}"
        if not account.say(what, against):
            continue
        states = [part for part in a if part.startswith("state") or part == "last_step"]
        same = _table_optimizer(saved, name) == _table_optimizer(own, name) is not None
        with_states = same and without_scores(a) == without_scores(b)
        if states:
            account.say(
                f"optimizer states of table {name!r}",
                "" if with_states else _without_states(state, saved),
            )
        found.append(
            TablePlan(
                index,
                number,
                [
                    part
                    for part in a
                    if (with_states or part not in states) and (part not in SCORES or part in b)
                ],
            )
        )
    for name in ours:
        if name not in theirs:
            account.say(f"rows of table {name!r}", "the checkpoint has no such table")
    return found


def _table_optimizer(of: Description | None, name: str) -> tuple[Any, Any] | None:
    for table in of["tables"] if of is not None else []:
        if table["name"] == name:
            return table["optimizer"].get("type"), table["optimizer"].get("update_type")
    return None


def _statistics(
    state: TrainingState, manifest: Manifest, dense: Mapping[str, Array], account: _Account
) -> Statistics:
    own = {name: (mean, var) for name, mean, var in state.session.network.non_trainables()}
    names = manifest["statistics"]
    for index, name in enumerate(names):
        mean, var = (dense[f"statistics{index}.{kind}"] for kind in ("mean", "var"))
        what = f"running statistics of layer {name!r}"
        if name not in own:
            account.say(what, "the model has none of this name")
        elif account.say(
            what, "" if own[name][0].size == mean.size else f"the model has {own[name][0].size}"
        ):
            own[name] = mean, var
    for name in own:
        if name not in names:
            account.say(f"running statistics of layer {name!r}", "the checkpoint has none")
    return [(name, mean, var) for name, (mean, var) in own.items()]
