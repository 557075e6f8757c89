# SPDX-License-Identifier: Apache-2.0
"""The optimizer of a collection's rows, in the shape of torch.optim."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import torch

from hugectr.base.arguments import check_float
from hugectr.base.errors import InvalidArgument
from hugectr.torch.engine import Engine
from hugectr.torch.row_gradient import RowGradient, Waiting


def _rate_of(group: dict[str, Any]) -> float:
    """The learning rate of a group, which anybody may have written into it."""
    found = group["lr"]
    try:
        rate = float(found)
    except (TypeError, ValueError):
        rate = math.nan
    if not math.isfinite(rate):
        raise InvalidArgument(
            f"lr: the group of tables {group.get('table_names')} has {found!r}, allowed: a finite "
            "number; nothing was updated"
        )
    return rate


#: What groups of torch's optimizers have, and those of rows do not.
_OF_TORCH = (
    *("alpha", "amsgrad", "betas", "centered", "dampening", "eps", "initial_accumulator_value"),
    *("lr_decay", "maximize", "momentum", "momentum_decay", "nesterov", "rho", "weight_decay"),
)


def _params_of(group: Any) -> list[Any]:
    """The places of tables in a group, which asks for nothing that rows do not get by it."""
    params = group.get("params") if isinstance(group, dict) else None
    if isinstance(params, torch.Tensor):
        params = [params]
    if not isinstance(params, Iterable):
        raise InvalidArgument(
            "add_param_group: found no tables in it: {'params': [rows.rows[0]], 'lr': 0.1} is a "
            "group of one, where rows is this optimizer"
        )
    ignored = [name for name in group if name in _OF_TORCH and group[name]]
    if ignored:
        raise InvalidArgument(
            f"add_param_group: rows get no {', '.join(ignored)} by groups: what "
            "hugectr.CreateOptimizer(...) was given is that of all tables of the collection; "
            "tables that need another are a collection of their own"
        )
    return list(params)


def _groups_in(state_dict: Any) -> list[dict[str, Any]]:
    """The groups of an optimizer's state_dict."""
    groups = state_dict.get("param_groups") if isinstance(state_dict, dict) else None
    good = isinstance(groups, list) and all(
        isinstance(group, dict) and {"params", "lr"} <= group.keys() for group in groups
    )
    if not good or "state" not in state_dict:
        what = f"keys {sorted(map(str, state_dict))}" if isinstance(state_dict, dict) else ""
        raise InvalidArgument(
            "load_state_dict: found no state_dict() of an optimizer, but "
            f"{what or type(state_dict).__name__}; load what the state_dict() of this one gave. "
            "Rows and their states are in that of the collection"
        )
    return list(groups or ())


def _hooks_of_all() -> list[Callable[[], Any]]:
    """What says whether the steps of all optimizers are watched; one that this torch does not have
    under its name counts as there."""
    module = import_module("torch.optim.optimizer")  # its package hides it
    names = ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks")
    found: list[Callable[[], Any]] = [partial(getattr, module, name, True) for name in names]
    return [*found, getattr(torch.autograd, "_profiler_enabled", lambda: True)]


_HOOKS_OF_ALL = _hooks_of_all()


class CollectionOptimizer(torch.optim.Optimizer):
    """Updates the rows that batches have touched since the last step, each once.

    Made by ``collection.optimizer(lr)``. ``step()`` and ``zero_grad()`` are called beside those of
    the optimizer of the dense part; learning-rate schedulers and ``GradScaler`` take it as they
    take any. Rows and their states are part of the collection's ``state_dict()``, the learning
    rates of this one's.

    Attributes
    ----------
    rows : list of RowGradient
        One a table, to be given to ``clip_grad_norm_`` with the parameters of the dense part.
    """

    def __init__(self, engine: Engine, names: Sequence[str], lr: float, *, fused: bool) -> None:
        self._engine = engine
        if engine.waiting is None:  # one for all: what one is clipped by, others update by
            engine.waiting = Waiting(engine, fused)
        self._waiting: Waiting = engine.waiting
        self.rows = [RowGradient.make(self._waiting, i, engine.device) for i in range(len(names))]
        self._names = list(names)
        check_float("lr", lr, 0.0)
        super().__init__([{"params": self.rows}], {"lr": lr})
        self._opt_called = fused  # or schedulers ask for a step(), which backward does there
        engine.after_backward = self._update if fused else self._check_unscaled
        engine.rates_of_backward = self._rates if fused else None

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """A group of tables of this collection, with a learning rate of its own.

        They leave the group that they are in.

        Parameters
        ----------
        param_group : dict
            ``params``: some of ``rows``; ``lr`` and what schedulers keep.

        Raises
        ------
        InvalidArgument
            When something else is among ``params``, or one of them twice; when it asks for what
            rows get of ``CreateOptimizer`` alone, such as ``weight_decay``.
        """
        params = _params_of(param_group)
        for each in params:
            if not (isinstance(each, RowGradient) and each._waiting is self._waiting):
                raise InvalidArgument(
                    "the optimizer of a collection updates the rows of its tables alone: give "
                    "other parameters to an optimizer of torch, and step() both"
                )
        tables = [each._table for each in params]
        if len(set(tables)) < len(tables):
            raise InvalidArgument("add_param_group: a table is in it twice")
        for group in self.param_groups:
            group["params"] = [row for row in group["params"] if row._table not in tables]
            group["table_names"] = [self._names[row._table] for row in group["params"]]
        rows, names = ([of[table] for table in tables] for of in (self.rows, self._names))
        super().add_param_group({**param_group, "params": rows, "table_names": names})

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the learning rates, and what schedulers keep, of another one of the same tables.

        Raises
        ------
        InvalidArgument
            When it is of other tables, or of an optimizer of torch.
        """
        own, theirs = (
            [group.get("table_names") for group in groups]
            for groups in (self.param_groups, _groups_in(state_dict))
        )
        if own != theirs:
            raise InvalidArgument(
                f"load_state_dict: this optimizer updates the rows of tables {own}, and the "
                f"state_dict is of {'other tables' if any(theirs) else 'an optimizer of torch'}: "
                f"{theirs}, a group each; load what the state_dict() of this one gave"
            )
        super().load_state_dict(state_dict)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Neither pickled nor copied: it belongs to its collection."""
        raise TypeError(
            f"a {type(self).__name__} can not be pickled or copied: it updates the tables of one "
            "collection. Save its state_dict() and that of the collection (or save()); for a copy "
            "make another collection of the same configs, have it load_state_dict(), and load "
            "this one's state_dict() into what its optimizer(lr) returns"
        )

    def _check_unscaled(self) -> None:
        if self._waiting.scaled():
            raise InvalidArgument(
                "backward() came after gradients were unscaled, clipped or set to None: do that "
                "once, after all batches of a step, and call step() or zero_grad() before the next"
            )
        self._waiting.forget()

    def _rates(self) -> list[float]:
        rates = [0.0] * len(self.rows)
        for group in self.param_groups:
            rate = _rate_of(group)
            if len(group["params"]) == len(rates):
                return [rate] * len(rates)
            for row in group["params"]:
                rates[row._table] = rate
        return rates

    @torch.no_grad()
    def _unscale(self) -> torch.Tensor | None:
        return self._waiting.unscale()

    def _update(self) -> None:
        left_out = self._waiting.left_out()
        self._engine.step(self._rates, self._unscale())
        if left_out:
            self._engine.count_no_step(left_out)
        self._engine.backwards = 0
        self._waiting.forget()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every touched row with the sum of its gradients since the last step."""
        if self._is_watched():
            return self._watched_step(closure)
        return self._step(closure)

    # So torch leaves step() as it is, instead of passing every call through a profiler's mark and
    # its hooks, which takes as long as the update of small tables.
    step.hooked = True  # type: ignore[attr-defined]

    def _is_watched(self) -> bool:
        """Whether there are hooks of steps, or a profiler that is to see them."""
        return bool(
            self._optimizer_step_pre_hooks
            or self._optimizer_step_post_hooks
            or any(hooks() for hooks in _HOOKS_OF_ALL)
        )

    def _watched_step(self, closure: Callable[[], Any] | None = None) -> Any:
        """As torch has every optimizer's step: with its hooks, marked for profilers."""
        hooked = torch.optim.Optimizer.profile_hook_step(CollectionOptimizer._step)
        return hooked(self) if closure is None else hooked(self, closure)

    def _step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        fused, engine = self._waiting.fused, self._engine
        if engine.core.has_gradients() if fused else engine.is_due():
            self._update()
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget gradients; rows that were begun for them never were."""
        self._engine.forget_gradients()
