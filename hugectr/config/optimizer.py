# SPDX-License-Identifier: Apache-2.0
"""The ``optimizer`` object of a JSON config: the model's, or one table's."""

from dataclasses import fields
from typing import Any

from hugectr.base.errors import rejected
from hugectr.config.json_reader import JsonObject
from hugectr.spec.enums import Optimizer_t, Update_t
from hugectr.spec.optimizer import OptParamsPy, Schedule, check_field, fields_of, is_left_out


def _schedule(hparam: JsonObject) -> Schedule | None:
    schedule = Schedule(
        base_lr=hparam.number("learning_rate", 0.001, minimum=0.0),
        warmup_steps=hparam.integer("warmup_steps", 1, minimum=1),
        decay_start=hparam.integer("decay_start", 0, minimum=0),
        decay_steps=hparam.integer("decay_steps", 1, minimum=1),
        decay_power=hparam.number("decay_power", 2.0, minimum=1.0),
        end_lr=hparam.number("end_lr", 0.0, minimum=0.0),
    )
    names = ["learning_rate", *(one.name for one in fields(Schedule) if one.name != "base_lr")]
    return schedule if any(name in hparam for name in names) else None


def _check_hparam(optimizer: JsonObject, kind: Optimizer_t) -> None:
    """Refuse parameters that are all of other types: the rate in them would not count.

    Those of other types beside its own are left alone, as configs keep them to switch.
    """
    others = [other.hparam for other in Optimizer_t if other.hparam in optimizer]
    if others and kind.hparam not in optimizer:
        where = optimizer.where(others[0])
        raise rejected(where, optimizer.raw(others[0]), f"{kind.hparam}, as type is {kind.name!r}")


def parse_optimizer(optimizer: JsonObject) -> OptParamsPy:
    """Read an ``optimizer`` object.

    Returns
    -------
    OptParamsPy
        With a schedule when the object gives a learning rate or anything else of one. That of a
        table is read and not used: the model's schedule drives tables and dense network alike, and
        a warning says so where it is another one.
    """
    kinds = {kind.name: kind for kind in Optimizer_t}
    kind = kinds[optimizer.choice("type", kinds)]
    updates = {update.name: update for update in Update_t}
    if "update_type" in optimizer and "global_update" in optimizer:
        found = optimizer.raw("global_update")
        raise rejected(optimizer.where("global_update"), found, "only one of it and update_type")
    update = updates[optimizer.choice("update_type", updates, "Local")]
    if optimizer.boolean("global_update", False):
        update = Update_t.Global
    _check_hparam(optimizer, kind)
    hparam = optimizer.object(kind.hparam, optional=True)
    values = {
        name: check_field(hparam.where(name), hparam.raw(name), name)
        for name in fields_of(kind)
        if name in hparam
    }
    atomic_update = True
    if kind is Optimizer_t.SGD:
        atomic_update = hparam.boolean("atomic_update", False)
    schedule = _schedule(hparam)
    hparam.finish()
    optimizer.ignore(*(other.hparam for other in Optimizer_t))
    optimizer.finish()
    return OptParamsPy.of(kind, update, values, atomic_update=atomic_update, schedule=schedule)


def optimizer_to_json(params: OptParamsPy) -> dict[str, Any]:
    """The object that ``parse_optimizer`` reads back."""
    kind = params.optimizer_type
    values = {name: getattr(params, name) for name in fields_of(kind)}
    hparam: dict[str, Any] = {n: value for n, value in values.items() if not is_left_out(n, value)}
    if kind is Optimizer_t.SGD:
        hparam["atomic_update"] = params.atomic_update
    return {
        "type": kind.name,
        "update_type": params.update_type.name,
        kind.hparam: hparam,
    }
