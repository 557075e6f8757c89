# SPDX-License-Identifier: Apache-2.0
"""The places of tables among the parameters of an optimizer, and the gradients that wait there."""

from __future__ import annotations

import sys
from typing import Any

import torch

from hugectr.base.errors import InvalidArgument
from hugectr.torch.engine import Engine

_FOR_ITSELF = (
    "an optimizer of torch can not update the rows of a collection, of which it is given but "
    "the norms of gradients: give it the parameters of the dense part alone, and step() what "
    "collection.optimizer(lr) returned beside it"
)
#: Who reads gradients to do what can not be done to rows: the function of torch, and what is said.
_REFUSED = {
    "_init_group": _FOR_ITSELF,
    "_gather_flat_grad": _FOR_ITSELF,  # of LBFGS
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


@torch.compiler.disable  # a compiler takes versions for numbers that it does not know
def _written(tensors: list[torch.Tensor]) -> bool:
    """Whether anybody has written to one of these, by their versions, which begin with 0."""
    return any(each._version for each in tensors)


class Waiting:
    """The norms of the gradients that wait, as whoever scales gradients sees them."""

    def __init__(self, engine: Engine, fused: bool) -> None:
        self._engine = engine
        self.fused = fused
        self._shown: torch.Tensor | None = None  # (tables): what others may multiply,
        self._parts: list[torch.Tensor] = []  # of each table, in the same memory
        self._norms = torch.empty(0, device="cpu")  # (tables): what it was
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
            # No views to torch, which refuses detach_() of these, as loops of old have it.
            self._parts = [self._shown[i].data for i in range(len(self._norms))]
        return self._parts[table]

    def is_shown(self, found: torch.Tensor, table: int) -> bool:
        """Whether this is the norm of a table's gradient, where others multiply it."""
        return self._shown is not None and found is self._parts[table]

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
        return self._is_multiplied() or bool(self._dropped)

    def _is_multiplied(self) -> bool:
        return self._shown is not None and bool(_written(self._parts))

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
            if not self._is_multiplied():  # nobody has multiplied NaN
                same |= now.isnan() & was.isnan()
            factors = torch.where(same, factors, torch.where(now == 0, now, now / was))
        for table in self._dropped:
            factors[table] = 0
        return factors

    def forget(self) -> None:
        """The gradients are others now."""
        self._shown = None
        self._dropped.clear()


def _no_hooks() -> InvalidArgument:
    return InvalidArgument(
        "rows have no hooks of their gradients, which are not at this tensor: fused=True of a "
        "collection updates rows in backward, register_step_pre_hook of its optimizer comes before "
        "each step, and register_hook of the vectors that it returns sees their gradients"
    )


class RowGradient(torch.Tensor):
    """A table's place among the parameters of an optimizer: an empty tensor.

    Its ``grad`` is one number, the norm of the gradient of all rows that wait for ``step()``.
    Whatever multiplies it, multiplies the rows' gradients: so ``GradScaler.unscale_`` and
    ``torch.nn.utils.clip_grad_norm_`` mean what they say. What makes it 0 leaves the table as it
    is, as does ``grad = None``. ``requires_grad = False`` freezes the table.
    """

    _waiting: Waiting
    _table: int

    # What is computed of it (a copy, parameters_to_vector) is a tensor as any: it is of no table.
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def make(waiting: Waiting, table: int, device: torch.device) -> RowGradient:
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
        if value is None:
            self._waiting.drop(self._table)
        elif not self._waiting.is_shown(value, self._table):  # as it is behind grad *= 0.5
            raise InvalidArgument(
                "the gradient of rows can be scaled (grad *= 0.5, grad.mul_) or dropped (None), "
                "not set: of it there is but the norm here"
            )

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

    def register_hook(self, hook: Any) -> Any:
        """Refused: a backward comes by the tables, and no hook of this tensor is called."""
        raise _no_hooks()

    def register_post_accumulate_grad_hook(self, hook: Any) -> Any:
        """Refused, as ``register_hook``."""
        raise _no_hooks()

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"RowGradient(table {self._table})"

    def __deepcopy__(self, memo: Any) -> RowGradient:
        return self
