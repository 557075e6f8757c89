# SPDX-License-Identifier: Apache-2.0
"""Optimizer settings and learning-rate schedules."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hugectr._core import LearningRateScheduler, adjustments, optimizers
from hugectr.base import catalogue
from hugectr.base.arguments import check_bool, check_enum, check_float, check_int
from hugectr.base.errors import did_you_mean, rejected
from hugectr.base.no_effect import warn_given
from hugectr.spec.enums import Optimizer_t, Update_t

if TYPE_CHECKING:
    from hugectr._core import OptParams
    from hugectr._core_specs import CatalogueField

__all__ = ["CreateOptimizer", "LearningRateScheduler", "OptParamsPy", "Schedule"]


@dataclass(frozen=True)
class Schedule:
    """A learning-rate schedule; the arguments of ``LearningRateScheduler``."""

    base_lr: float = 0.001
    warmup_steps: int = 1
    decay_start: int = 0
    decay_steps: int = 1
    decay_power: float = 2.0
    end_lr: float = 0.0

    def scheduler(self) -> LearningRateScheduler:
        """A scheduler at its start."""
        return LearningRateScheduler(
            self.base_lr,
            self.warmup_steps,
            self.decay_start,
            self.decay_steps,
            self.decay_power,
            self.end_lr,
        )


#: What the core's catalogue says of each optimizer, by name.
_CATALOGUE = optimizers()
#: Fields that every optimizer takes: penalties, decay, clipping; 0 leaves out what they ask for.
_ADJUSTMENTS = adjustments()
#: Fields of all of them; those of several optimizers are the same everywhere.
_FIELDS = {
    name: field for entry in _CATALOGUE.values() for name, field in entry["fields"].items()
} | _ADJUSTMENTS
_DEFAULTS = {name: field["default"] for name, field in _FIELDS.items()}


def fields_of(optimizer: Optimizer_t) -> list[str]:
    """Names of the fields that an optimizer has; those that all of them take are the last."""
    entry = _CATALOGUE[optimizer.name]
    taken = [name for name in _ADJUSTMENTS if entry["decays"] or name != "weight_decay"]
    return [*entry["fields"], *taken]


def _owners(field: str) -> str:
    """The optimizers that have a field, for people."""
    return " or ".join(each.name for each in Optimizer_t if field in fields_of(each))


def is_left_out(name: str, value: float) -> bool:
    """Whether a field of this value asks for nothing, so that files need not name it."""
    return name in _ADJUSTMENTS and value == _DEFAULTS[name]


def states_of(optimizer: Optimizer_t) -> list[str]:
    """Names of what an optimizer keeps beside a weight, in the order of the files."""
    return list(_CATALOGUE[optimizer.name]["states"])


def state_widths(optimizer: Optimizer_t, vec_size: int) -> list[int]:
    """Numbers of each state of a row: as many as the vector has, or one."""
    kinds = _CATALOGUE[optimizer.name]["states"].values()
    return [1 if kind == "row" else vec_size for kind in kinds]


def moves_untouched_rows(optimizer: Optimizer_t) -> bool:
    """Whether update types but Local change rows that a batch does not touch."""
    return _CATALOGUE[optimizer.name]["moves_untouched_rows"]


def check_field(where: str, value: Any, name: str) -> float:
    """A field's value inside its bounds, also when it is rounded to float32."""
    return catalogue.check_field(where, value, _FIELDS[name])


@dataclass(frozen=True)
class OptParamsPy:
    """What ``CreateOptimizer`` returns. The fields are attributes too: ``params.beta1``."""

    optimizer_type: Optimizer_t
    update_type: Update_t
    #: Name and value of the fields of all optimizers.
    fields: tuple[tuple[str, float], ...]
    atomic_update: bool = True
    #: Set by the v3.0 form only; goes before the solver's schedule.
    schedule: Schedule | None = None

    @classmethod
    def of(
        cls,
        optimizer_type: Optimizer_t,
        update_type: Update_t,
        values: Mapping[str, float],
        *,
        atomic_update: bool = True,
        schedule: Schedule | None = None,
    ) -> OptParamsPy:
        """Settings with defaults for the fields that have no value here."""
        fields = tuple((_DEFAULTS | dict(values)).items())
        return cls(optimizer_type, update_type, fields, atomic_update, schedule)

    def __getattr__(self, name: str) -> float:
        for field, value in self.__dict__.get("fields", ()):
            if field == name:
                return float(value)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def with_fields(self, **values: float) -> OptParamsPy:
        """The same with other values of these fields."""
        return replace(self, fields=tuple((dict(self.fields) | values).items()))

    def to_spec(self) -> OptParams:
        """The settings as the core reads them."""
        return {
            "optimizer": self.optimizer_type.name,
            "update_type": self.update_type.name,
            "atomic_update": self.atomic_update,
            **dict(self.fields),
        }


def CreateOptimizer(
    optimizer_type: Optimizer_t = Optimizer_t.Adam,
    update_type: Update_t = Update_t.Global,
    beta1: float = _DEFAULTS["beta1"],
    beta2: float = _DEFAULTS["beta2"],
    epsilon: float = _DEFAULTS["epsilon"],
    initial_accu_value: float = _DEFAULTS["initial_accu_value"],
    momentum_factor: float = _DEFAULTS["momentum_factor"],
    atomic_update: bool = True,
    *,
    use_mixed_precision: bool = False,
    learning_rate: float | None = None,
    warmup_steps: int = 1,
    decay_start: int = 0,
    decay_steps: int = 1,
    decay_power: float = 2.0,
    end_lr: float = 0.0,
    **more: float,
) -> OptParamsPy:
    """Choose an optimizer, for the whole model or for one table.

    Parameters
    ----------
    optimizer_type : Optimizer_t
        Which of the optimizers below.
    update_type : Update_t
        Rows of a table a step changes: ``Local`` those of the batch, ``Global`` all of them
        (moments decay also where a batch has no key), ``LazyGlobal`` (Adam) nearly the same, but a
        row is moved by its last update when it is next updated, not before.
    beta1, beta2, epsilon, initial_accu_value, momentum_factor : float
        Fields of optimizers; those that the chosen one does not have are without effect, and a
        warning says so of one that is not the default.
    atomic_update : bool
        Accepted; updates are deterministic either way.
    use_mixed_precision : bool
        v3.0 form, accepted: the solver decides.
    learning_rate, warmup_steps, decay_start, decay_steps, decay_power, end_lr
        v3.0 form: the schedule, used instead of the solver's when ``learning_rate`` is given.
    **more
        Fields of the chosen optimizer that are not named above, and those that every one takes:
        ``weight_decay``, ``l1``, ``l2``, ``clip_value``, ``clip_norm``.

    Raises
    ------
    InvalidArgument
        A ValueError that names the argument, what was found and what is allowed.
    TypeError
        When an argument is a field of no optimizer.
    """
    where = "CreateOptimizer: "
    check_bool(where + "use_mixed_precision", use_mixed_precision)
    schedule = None
    if learning_rate is None:
        own: dict[str, float] = {
            "warmup_steps": warmup_steps,
            "decay_start": decay_start,
            "decay_steps": decay_steps,
            "decay_power": decay_power,
            "end_lr": end_lr,
        }
        why = "without learning_rate the schedule is the solver's"
        warn_given("CreateOptimizer", own, vars(Schedule()), dict.fromkeys(own, why))
    else:
        schedule = Schedule(
            base_lr=check_float(where + "learning_rate", learning_rate, 0.0),
            warmup_steps=check_int(where + "warmup_steps", warmup_steps, 1),
            decay_start=check_int(where + "decay_start", decay_start, 0),
            decay_steps=check_int(where + "decay_steps", decay_steps, 1),
            decay_power=check_float(where + "decay_power", decay_power, 1.0),
            end_lr=check_float(where + "end_lr", end_lr, 0.0),
        )
    kind = check_enum(where + "optimizer_type", optimizer_type, Optimizer_t)
    for name, value in more.items():
        if name not in _FIELDS:
            near = did_you_mean(name, _FIELDS)
            raise TypeError(f"CreateOptimizer() got an unexpected keyword argument {name!r}{near}")
        # Scripts may name every argument, whatever the optimizer: what asks for nothing is fine.
        if name not in fields_of(kind) and value != _DEFAULTS[name]:
            raise rejected(where + name, value, f"only with {_owners(name)}, not {kind.name}")
    if more.get("clip_value") and more.get("clip_norm"):
        raise rejected(where + "clip_norm", more["clip_norm"], "only one of it and clip_value")
    of_v3 = {
        "beta1": beta1,
        "beta2": beta2,
        "epsilon": epsilon,
        "initial_accu_value": initial_accu_value,
        "momentum_factor": momentum_factor,
    }
    reasons = {name: f"only {_owners(name)} has it" for name in of_v3}
    for name in fields_of(kind):
        reasons.pop(name, None)
    warn_given(f"CreateOptimizer of {kind.name}", of_v3, _DEFAULTS, reasons)
    given = {**of_v3, **more}
    return OptParamsPy.of(
        kind,
        check_enum(where + "update_type", update_type, Update_t),
        {name: check_field(where + name, value, name) for name, value in given.items()},
        atomic_update=check_bool(where + "atomic_update", atomic_update),
        schedule=schedule,
    )


def _described() -> str:
    """The catalogue as a section of a docstring."""
    lines = ["    Notes", "    -----"]
    for name, entry in _CATALOGUE.items():
        states = [
            f"{state} (one number a row)" if width == "row" else state
            for state, width in entry["states"].items()
        ]
        lines.append(f"    ``Optimizer_t.{name}``: ``{entry['doc']}``.")
        lines += [f"    Kept beside a weight: {', '.join(states) or 'nothing'}.", ""]
        lines += _described_fields(entry["fields"])
    lines += [
        "    Every optimizer takes these; at 0 they do nothing. They come before the rule, in this",
        "    order: clipping, ``l1`` and ``l2``, ``weight_decay``. The reported loss has no part",
        "    of them. Ftrl takes no ``weight_decay``: its weights are what its states say.",
        "",
    ]
    lines += _described_fields(_ADJUSTMENTS)
    return "\n" + "\n".join(lines)


def _described_fields(fields: Mapping[str, CatalogueField]) -> list[str]:
    lines = []
    for field, about in fields.items():
        below = f", < {about['below']:g}" if math.isfinite(about["below"]) else ""
        lines.append(
            f"        ``{field}`` = {about['default']:g} (>= {about['minimum']:g}{below}): "
            f"{about['doc']}."
        )
        lines.append("")
    return lines


if CreateOptimizer.__doc__:  # none under python -OO
    CreateOptimizer.__doc__ += _described()
