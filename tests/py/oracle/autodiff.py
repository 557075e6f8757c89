# SPDX-License-Identifier: Apache-2.0
"""Reverse-mode differentiation of NumPy expressions in float64, for whole nets."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class Var:
    """A value that remembers how it was made."""

    def __init__(
        self, value: npt.ArrayLike, parents: tuple[tuple[Var, Callable[[Array], Array]], ...] = ()
    ) -> None:
        self.value = np.asarray(value, np.float64)
        self.grad: Array = np.zeros_like(self.value)
        self.parents = parents

    def __add__(self, other: Var) -> Var:
        return Var(
            self.value + other.value,
            (
                (self, lambda g: _unbroadcast(g, self.value.shape)),
                (other, lambda g: _unbroadcast(g, other.value.shape)),
            ),
        )

    def __mul__(self, other: Var) -> Var:
        return Var(
            self.value * other.value,
            (
                (self, lambda g: _unbroadcast(g * other.value, self.value.shape)),
                (other, lambda g: _unbroadcast(g * self.value, other.value.shape)),
            ),
        )

    def __matmul__(self, other: Var) -> Var:
        """(n, k) @ (k, m)."""
        return Var(
            self.value @ other.value,
            ((self, lambda g: g @ other.value.T), (other, lambda g: self.value.T @ g)),
        )

    def relu(self) -> Var:
        return Var(np.maximum(self.value, 0), ((self, lambda g: g * (self.value > 0)),))

    def reshape(self, *shape: int) -> Var:
        return Var(self.value.reshape(*shape), ((self, lambda g: g.reshape(self.value.shape)),))

    def sum(self, axis: int) -> Var:
        """Sum over an axis that stays, with size 1."""
        total = self.value.sum(axis, keepdims=True)
        return Var(total, ((self, lambda g: np.broadcast_to(g, self.value.shape)),))

    def gram_below_diagonal(self) -> Var:
        """(b, t, w) -> (b, t (t - 1) / 2): dot products of row n with rows m < n, n by n."""
        t = self.value.shape[1]
        n, m = np.tril_indices(t, -1)
        gram = np.einsum("bnw,bmw->bnm", self.value, self.value)

        def back(g: Array) -> Array:
            full = np.zeros_like(gram)
            full[:, n, m] = g
            return np.einsum("bnm,bmw->bnw", full + full.transpose(0, 2, 1), self.value)

        return Var(gram[:, n, m], ((self, back),))

    def backward(self, seed: Array) -> None:
        """Fill ``grad`` of everything this value was made from."""
        order: list[Var] = []
        seen: set[int] = set()

        def visit(var: Var) -> None:
            if id(var) not in seen:
                seen.add(id(var))
                for parent, _ in var.parents:
                    visit(parent)
                order.append(var)

        visit(self)
        self.grad = seed
        for var in reversed(order):
            for parent, back in var.parents:
                parent.grad = parent.grad + back(var.grad)


def concat(*parts: Var) -> Var:
    """Join along axis 1."""
    bounds = np.cumsum([0] + [part.value.shape[1] for part in parts])
    parents = []
    for part, low, high in zip(parts, bounds[:-1], bounds[1:], strict=True):
        parents.append((part, lambda g, low=low, high=high: g[:, low:high]))
    return Var(np.concatenate([part.value for part in parts], axis=1), tuple(parents))


def _unbroadcast(gradient: Array, shape: tuple[int, ...]) -> Array:
    """Sum a gradient over the axes along which a value was repeated."""
    while gradient.ndim > len(shape):
        gradient = gradient.sum(0)
    for axis, size in enumerate(shape):
        if size == 1 and gradient.shape[axis] != 1:
            gradient = gradient.sum(axis, keepdims=True)
    return gradient
