# SPDX-License-Identifier: Apache-2.0
"""The ``optimizer`` object of a JSON config: the model's, or one table's."""

from typing import Any

from hugectr.base.errors import rejected
from hugectr.config.json_reader import JsonObject
from hugectr.spec.enums import Optimizer_t, Update_t
from hugectr.spec.optimizer import OptParamsPy, Schedule

_HPARAM = {
    Optimizer_t.Adam: "adam_hparam",
    Optimizer_t.AdaGrad: "adagrad_hparam",
    Optimizer_t.MomentumSGD: "momentum_sgd_hparam",
    Optimizer_t.Nesterov: "nesterov_hparam",
    Optimizer_t.SGD: "sgd_hparam",
}
_READS: dict[Optimizer_t, tuple[str, ...]] = {
    Optimizer_t.Adam: ("beta1", "beta2", "epsilon"),
    Optimizer_t.AdaGrad: ("initial_accu_value", "epsilon"),
    Optimizer_t.MomentumSGD: ("momentum_factor",),
    Optimizer_t.Nesterov: ("momentum_factor",),
    Optimizer_t.SGD: (),
}


def _schedule(hparam: JsonObject) -> Schedule | None:
    schedule = Schedule(
        base_lr=hparam.number("learning_rate", 0.001, minimum=0.0),
        warmup_steps=hparam.integer("warmup_steps", 1, minimum=1),
        decay_start=hparam.integer("decay_start", 0, minimum=0),
        decay_steps=hparam.integer("decay_steps", 1, minimum=1),
        decay_power=hparam.number("decay_power", 2.0, minimum=1.0),
        end_lr=hparam.number("end_lr", 0.0, minimum=0.0),
    )
    return schedule if "learning_rate" in hparam else None


def parse_optimizer(optimizer: JsonObject) -> OptParamsPy:
    """Read an ``optimizer`` object.

    Returns
    -------
    OptParamsPy
        With a schedule when the object gives a learning rate. A table's own learning rate is read
        and not used: the model's schedule drives tables and dense network alike.
    """
    kinds = {kind.name: kind for kind in Optimizer_t}
    kind = kinds[optimizer.choice("type", kinds)]
    updates = {update.name: update for update in Update_t}
    if "update_type" in optimizer and "global_update" in optimizer:
        raise rejected(optimizer.where("global_update"), True, "only one of it and update_type")
    update = updates[optimizer.choice("update_type", updates, "Local")]
    if optimizer.boolean("global_update", False):
        update = Update_t.Global
    hparam = optimizer.object(_HPARAM[kind], optional=True)
    values: dict[str, Any] = {
        name: hparam.number(name, minimum=0.0) for name in _READS[kind] if name in hparam
    }
    for name in ("beta1", "beta2"):
        if values.get(name, 0.0) >= 1.0:
            raise rejected(hparam.where(name), values[name], "a number >= 0 and < 1")
    if kind is Optimizer_t.SGD:
        values["atomic_update"] = hparam.boolean("atomic_update", False)
    schedule = _schedule(hparam)
    hparam.finish()
    optimizer.ignore(*_HPARAM.values())
    optimizer.finish()
    return OptParamsPy(kind, update, schedule=schedule, **values)


def optimizer_to_json(params: OptParamsPy) -> dict[str, Any]:
    """The object that ``parse_optimizer`` reads back."""
    hparam: dict[str, Any] = {name: getattr(params, name) for name in _READS[params.optimizer_type]}
    if params.optimizer_type is Optimizer_t.SGD:
        hparam["atomic_update"] = params.atomic_update
    return {
        "type": params.optimizer_type.name,
        "update_type": params.update_type.name,
        _HPARAM[params.optimizer_type]: hparam,
    }
