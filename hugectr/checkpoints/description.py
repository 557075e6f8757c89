# SPDX-License-Identifier: Apache-2.0
"""What model a checkpoint is of: the graph, tables, optimizers and number types, as plain values.

It holds what decides what training computes, and nothing that only decides where, how fast, or what
new weights begin with; ``docs/checkpoints.md`` lists what is compared and what is not, and why.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from hugectr.config.optimizer import optimizer_to_json
from hugectr.spec.optimizer import moves_untouched_rows

if TYPE_CHECKING:
    from hugectr._core import Session
    from hugectr.spec.embedding import SparseEmbedding
    from hugectr.spec.input import DataReaderSparseParam, Input
    from hugectr.spec.optimizer import OptParamsPy
    from hugectr.spec.solver import Solver

Description = dict[str, Any]


class Described(Protocol):
    """What a description is made from: a compiled model."""

    @property
    def solver(self) -> Solver: ...
    @property
    def input(self) -> Input | None: ...
    @property
    def embeddings(self) -> Sequence[SparseEmbedding]: ...
    @property
    def opt_params(self) -> OptParamsPy: ...
    @property
    def session(self) -> Session: ...


def description_of(model: Described) -> Description:
    """What a compiled model is, for the manifest of its checkpoints."""
    solver, inputs = model.solver, model.input
    assert inputs is not None, "a compiled model has an input"
    kind = solver.compute_dtype
    scaling: str | float | None = None
    if kind == "float16":
        scaling = "dynamic" if solver.dynamic_loss_scaling else float(solver.scaler)
    in_positions = {
        name for one in model.embeddings if one.combiner == "concat" for name in one.bottom_names
    }
    found = {
        "label": _label(inputs),
        "dense": {"name": inputs.dense_name, "dim": inputs.dense_dim},
        "keys": "int64" if solver.i64_input_key else "uint32",
        "precision": kind,
        "loss_scaling": scaling,
        "optimizer": _optimizer(model.opt_params, False),
        "inputs": [_sparse(one, one.top_name in in_positions) for one in inputs.sparse],
        "tables": [_table(table, model.opt_params) for table in model.embeddings],
        # The compiled layers: those that compile() puts in are in a graph file too.
        "layers": [_layer(spec) for spec in model.session.network.layers()],
    }
    plain: Description = json.loads(json.dumps(found))  # as it comes back from a file
    return plain


def _label(inputs: Input) -> dict[str, Any]:
    """The one label, or all of them."""
    if len(inputs.label_names) == 1:
        return {"name": inputs.label_name, "dim": inputs.label_dim}
    return {"name": inputs.label_names, "dim": inputs.label_dims, "group": inputs.group_name}


def _sparse(one: DataReaderSparseParam, in_positions: bool) -> dict[str, Any]:
    """A sparse input; the most keys of its slots where they have positions in the network."""
    found = {"name": one.top_name, "slots": one.slot_num}
    return found | {"positions": list(one.nnz_per_slot)} if in_positions else found


def _table(table: SparseEmbedding, opt_params: OptParamsPy) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": table.sparse_embedding_name,
        "type": "Localized" if table.is_localized else "Distributed",
        "input": table.bottom_name,  # a list where they are several
        "vec_size": table.embedding_vec_size,
        "combiner": table.combiner,
        # They bound the first values of the rows that are still to come.
        "slot_sizes": list(table.slot_size_array) if table.is_localized else [],
        "optimizer": _optimizer(table.own_optimizer(opt_params), True),
    }
    if table.top_name != table.sparse_embedding_name:
        found["top"] = table.top_name
    if table.initial is not None:  # that of those rows
        found["initializer"] = table.initial.to_json()
    if table.vector_type != "float32":
        found["vector_type"] = table.vector_type
    return found


def _optimizer(params: OptParamsPy, of_rows: bool) -> dict[str, Any]:
    """What the updates depend on; the learning rate is state, and the schedule the user's."""
    found: dict[str, Any] = {"type": params.optimizer_type.name}
    if of_rows and moves_untouched_rows(params.optimizer_type):
        found["update_type"] = params.update_type.name
    for value in optimizer_to_json(params).values():
        if isinstance(value, dict):
            found |= {name: one for name, one in value.items() if name != "atomic_update"}
    return found


def _layer(spec: Mapping[str, Any]) -> dict[str, Any]:
    attributes = spec.get("attributes", {})
    return {
        "name": spec["tops"][0],
        "type": spec["type"],
        "inputs": list(spec["bottoms"]),
        "outputs": list(spec["tops"]),
        # What weights begin with is over when there is a checkpoint.
        "parameters": {
            name: value for name, value in attributes.items() if not name.endswith("_init_type")
        },
    }


# --- what is different ----------------------------------------------------------------------------


def differences(saved: Description, own: Description) -> list[str]:
    """Everything in which two descriptions differ, a line each; empty when they are the same.

    Parameters
    ----------
    saved, own : dict
        Of the checkpoint and of the model.
    """
    found = []
    for name in ("label", "dense", "optimizer"):
        found += _of_fields(name, saved[name], own[name])
    for name in ("keys", "precision", "loss_scaling"):
        if saved[name] != own[name]:
            found.append(f"{name}: {_both(saved[name], own[name])}")
    for name, what in (("inputs", "sparse input"), ("tables", "table"), ("layers", "layer")):
        found += _of_lists(what, saved[name], own[name])
    return found


def _both(saved: Any, own: Any) -> str:
    return f"checkpoint {saved!r}, model {own!r}"


def _of_fields(where: str, saved: Mapping[str, Any], own: Mapping[str, Any]) -> list[str]:
    found = []
    for name in [*saved, *(name for name in own if name not in saved)]:
        a, b = saved.get(name), own.get(name)
        if isinstance(a, dict) and isinstance(b, dict):
            inner = where if name == "parameters" else f"{where} {name}"
            found += _of_fields(inner, a, b)
        elif a != b:
            found.append(f"{where} {name}: {_both(a, b)}")
    return found


def _of_lists(
    what: str, saved: Sequence[Mapping[str, Any]], own: Sequence[Mapping[str, Any]]
) -> list[str]:
    mine = {one["name"]: one for one in own}
    theirs = {one["name"] for one in saved}
    found = []
    for place, one in enumerate(saved):
        where = f"{what} {place} {one['name']!r}"
        if one["name"] not in mine:
            found.append(f"{where}{_kind(one)}: only in the checkpoint")
        else:
            found += _of_fields(where, one, mine[one["name"]])
    for place, one in enumerate(own):
        if one["name"] not in theirs:
            found.append(f"{what} {place} {one['name']!r}{_kind(one)}: only in the model")
    common = mine.keys() & theirs
    orders = [[one["name"] for one in side if one["name"] in common] for side in (saved, own)]
    if orders[0] != orders[1]:
        found.append(f"order of the {what}s: {_both(*orders)}")
    return found


def _kind(one: Mapping[str, Any]) -> str:
    return f" ({one['type']})" if "type" in one else ""
