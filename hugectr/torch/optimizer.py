# SPDX-License-Identifier: Apache-2.0
"""The optimizer of a collection's rows, in the shape of torch.optim."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import torch

from hugectr.base.arguments import check_float
from hugectr.base.errors import InvalidArgument
from hugectr.torch.engine import Engine

#: Who reads gradients to do what can not be done to rows: the function of torch, and what is said.
_REFUSED = {
    "_init_group": (
        "an optimizer of torch can not update the rows of a collection, of which it is given but "
        "the norms of gradients: give it the parameters of the dense part alone, and step() what "
        "collection.optimizer(lr) returned beside it"
    ),
    "clip_grad_value_": (
        "clip_grad_value_ can not clip the gradients of rows, of which there is only the norm "
        "here: leave rows out of it and make the collection with CreateOptimizer(clip_value=), "
        "which clips each number of each row"
    ),
    "_init_optim_state": (
        "torch.distributed.checkpoint.state_dict can not have the optimizer of a collection, whose "
        "rows are no parameters: give it the optimizers of the dense part alone, and save this "
        "one's state_dict() beside them, rows and their states with hugectr.torch.tables_to_save"
    ),
}


def _refuse_by_caller() -> None:
    """Raises where a function reads a gradient that could not do with it what it is about to."""
    frame: Any = sys._getframe(2)
    for _ in range(2):  # a comprehension has a frame of its own before Python 3.12
        if frame is None:
            return
        text = _REFUSED.get(frame.f_code.co_name)
        if text is not None:
            raise InvalidArgument(text)
        if frame.f_code.co_name == "clip_grad_norm_":
            kind = frame.f_locals.get("norm_type", 2.0)
            if float(kind) != 2.0:
                raise InvalidArgument(
                    f"clip_grad_norm_: found norm_type {kind}, and of rows there is the 2-norm "
                    "alone: leave it out, or leave rows out of what is clipped"
                )
        frame = frame.f_back


class _Waiting:
    """The norms of the gradients that wait, as whoever scales gradients sees them."""

    def __init__(self, engine: Engine, fused: bool) -> None:
        self._engine = engine
        self.fused = fused
        self._shown: torch.Tensor | None = None  # (tables): what others may multiply
        self._norms = torch.empty(0, device="cpu")  # (tables): what it was
        self._version = 0
        self._dropped: set[int] = set()  # tables whose gradient is not to be applied

    def norm(self, table: int) -> torch.Tensor | None:
        """The norm of a table's gradient, or None while there is no gradient."""
        if self.fused:
            raise InvalidArgument(
                "this collection is fused: backward() has updated its rows, so that there is no "
                "gradient to unscale or to clip; make it without fused=True"
            )
        if not self._engine.core.has_gradients() or table in self._dropped:
            return None
        if self._shown is None:
            self._norms = self._engine.squares().sqrt().to(torch.float32)
            self._shown = self._norms.clone()
            self._version = self._shown._version
            self._parts = [self._shown[i] for i in range(len(self._norms))]
        return self._parts[table]

    def drop(self, table: int) -> None:
        """A table's gradient is not to be applied; that of all: there is none any more."""
        if self.fused or not self._engine.core.has_gradients():
            return
        self._dropped.add(table)
        if len(self._dropped) == len(self._engine.dims):
            self._engine.forget_gradients()

    def is_trainable(self, table: int) -> bool:
        """Whether a table's rows are trained."""
        return self._engine.trainable[table]

    def set_trainable(self, table: int, trainable: bool) -> None:
        """Freezes a table, or unfreezes it."""
        self._engine.set_trainable(table, trainable)

    def scaled(self) -> bool:
        """Whether somebody has multiplied norms, as far as that is known, or dropped some."""
        multiplied = self._shown is not None and self._shown._version != self._version
        return multiplied or bool(self._dropped)

    def left_out(self) -> list[int]:
        """Tables whose gradients are not to be applied, as far as the host knows."""
        return sorted(self._dropped)

    def unscale(self) -> torch.Tensor | None:
        """What the gradients of each table have been multiplied by; None: nothing.

        By the numbers, once somebody has seen them: ``.data`` has a version of its own.
        """
        if self._shown is None and not self._dropped:
            return None
        factors = torch.ones(
            len(self._engine.dims), dtype=torch.float32, device=self._engine.device
        )
        if self._shown is not None:
            was, now = self._norms, self._shown.detach()
            same = now == was
            if self._shown._version == self._version:  # nobody has multiplied NaN
                same |= now.isnan() & was.isnan()
            factors = torch.where(same, factors, torch.where(now == 0, now, now / was))
        for table in self._dropped:
            factors[table] = 0
        return factors

    def forget(self) -> None:
        """The gradients are others now."""
        self._shown = None
        self._dropped.clear()


class RowGradient(torch.Tensor):
    """A table's place among the parameters of an optimizer: an empty tensor.

    Its ``grad`` is one number, the norm of the gradient of all rows that wait for ``step()``.
    Whatever multiplies it, multiplies the rows' gradients: so ``GradScaler.unscale_`` and
    ``torch.nn.utils.clip_grad_norm_`` mean what they say. What makes it 0 leaves the table as it
    is, as does ``grad = None``. ``requires_grad = False`` freezes the table.
    """

    _waiting: _Waiting
    _table: int

    # What is computed of it (a copy, parameters_to_vector) is a tensor as any: it is of no table.
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def make(waiting: _Waiting, table: int, device: torch.device) -> RowGradient:
        """That of the table of this number."""
        empty = torch.empty((), dtype=torch.float32, device=device)
        made = torch.Tensor._make_subclass(RowGradient, empty, True)
        made._waiting, made._table = waiting, table
        return made

    @property
    def grad(self) -> torch.Tensor | None:
        """The norm, of shape (), or None."""
        _refuse_by_caller()
        return self._waiting.norm(self._table)

    @grad.setter
    def grad(self, value: torch.Tensor | None) -> None:
        if value is not None:
            raise InvalidArgument("the gradient of rows can be scaled or dropped (None), not set")
        self._waiting.drop(self._table)

    @property
    def requires_grad(self) -> bool:
        """Whether the table is trained; setting it freezes or unfreezes the table."""
        return self._waiting.is_trainable(self._table)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._waiting.set_trainable(self._table, bool(value))

    def requires_grad_(self, requires_grad: bool = True) -> RowGradient:
        """Set ``requires_grad``."""
        self.requires_grad = requires_grad
        return self

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"RowGradient(table {self._table})"

    def __deepcopy__(self, memo: Any) -> RowGradient:
        return self


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
            engine.waiting = _Waiting(engine, fused)
        self._waiting: _Waiting = engine.waiting
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
            for groups in (self.param_groups, state_dict["param_groups"])
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
        self._engine.step(self._rates, self._unscale())
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
