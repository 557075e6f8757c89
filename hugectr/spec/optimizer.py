# SPDX-License-Identifier: Apache-2.0
"""Optimizer settings and learning-rate schedules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hugectr._core import LearningRateScheduler
from hugectr.base.arguments import check_bool, check_enum, check_float, check_int
from hugectr.spec.enums import Optimizer_t, Update_t

if TYPE_CHECKING:
    from hugectr._core import OptParams

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


@dataclass(frozen=True)
class OptParamsPy:
    """What ``CreateOptimizer`` returns."""

    optimizer_type: Optimizer_t = Optimizer_t.Adam
    update_type: Update_t = Update_t.Global
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-7
    initial_accu_value: float = 0.0
    momentum_factor: float = 0.0
    atomic_update: bool = True
    #: Set by the v3.0 form only; goes before the solver's schedule.
    schedule: Schedule | None = None

    def to_spec(self) -> OptParams:
        """The settings as the core reads them."""
        return {
            "optimizer": self.optimizer_type.name,
            "update_type": self.update_type.name,
            "beta1": self.beta1,
            "beta2": self.beta2,
            "epsilon": self.epsilon,
            "initial_accu_value": self.initial_accu_value,
            "momentum_factor": self.momentum_factor,
            "atomic_update": self.atomic_update,
        }


def CreateOptimizer(
    optimizer_type: Optimizer_t = Optimizer_t.Adam,
    update_type: Update_t = Update_t.Global,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-7,
    initial_accu_value: float = 0.0,
    momentum_factor: float = 0.0,
    atomic_update: bool = True,
    *,
    use_mixed_precision: bool = False,
    learning_rate: float | None = None,
    warmup_steps: int = 1,
    decay_start: int = 0,
    decay_steps: int = 1,
    decay_power: float = 2.0,
    end_lr: float = 0.0,
) -> OptParamsPy:
    """Choose an optimizer, for the whole model or for one table.

    Parameters
    ----------
    optimizer_type : Optimizer_t
        Adam, AdaGrad, MomentumSGD, Nesterov or SGD.
    update_type : Update_t
        Rows of a table a step changes: ``Local`` those of the batch, ``Global`` all of them
        (moments decay also where a batch has no key), ``LazyGlobal`` the same for Adam, replayed
        later.
    beta1, beta2, epsilon
        Of Adam; ``epsilon`` also of AdaGrad.
    initial_accu_value : float
        First value of AdaGrad's accumulators.
    momentum_factor : float
        Of MomentumSGD and Nesterov.
    atomic_update : bool
        Accepted; updates are deterministic either way.
    use_mixed_precision : bool
        v3.0 form, accepted: the solver decides.
    learning_rate, warmup_steps, decay_start, decay_steps, decay_power, end_lr
        v3.0 form: the schedule, used instead of the solver's when ``learning_rate`` is given.

    Raises
    ------
    InvalidArgument
        A ValueError that names the argument, what was found and what is allowed.
    """
    where = "CreateOptimizer: "
    check_bool(where + "use_mixed_precision", use_mixed_precision)
    schedule = None
    if learning_rate is not None:
        schedule = Schedule(
            base_lr=check_float(where + "learning_rate", learning_rate, 0.0),
            warmup_steps=check_int(where + "warmup_steps", warmup_steps, 1),
            decay_start=check_int(where + "decay_start", decay_start, 0),
            decay_steps=check_int(where + "decay_steps", decay_steps, 1),
            decay_power=check_float(where + "decay_power", decay_power, 1.0),
            end_lr=check_float(where + "end_lr", end_lr, 0.0),
        )
    return OptParamsPy(
        optimizer_type=check_enum(where + "optimizer_type", optimizer_type, Optimizer_t),
        update_type=check_enum(where + "update_type", update_type, Update_t),
        beta1=check_float(where + "beta1", beta1, 0.0, 1.0),
        beta2=check_float(where + "beta2", beta2, 0.0, 1.0),
        epsilon=check_float(where + "epsilon", epsilon, 0.0),
        initial_accu_value=check_float(where + "initial_accu_value", initial_accu_value, 0.0),
        momentum_factor=check_float(where + "momentum_factor", momentum_factor, 0.0),
        atomic_update=check_bool(where + "atomic_update", atomic_update),
        schedule=schedule,
    )
