# SPDX-License-Identifier: Apache-2.0
"""Learning rates as functions of the step: a step's share of the solver's ``lr``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from hugectr.base.arguments import check_float, check_int
from hugectr.base.errors import rejected

#: Number of a step, from 1 -> its share of the solver's ``lr``.
Schedule = Callable[[int], float]


def check_schedule(where: str, schedule: Any) -> Schedule:
    """Something that can be called with a step."""
    if not callable(schedule):
        raise rejected(where, schedule, "WarmUp, Cosine, Step, Plateau or a function of the step")
    checked: Schedule = schedule
    return checked


class WarmUp:
    """Rise in a line to the full rate in so many steps, then follow another schedule.

    Parameters
    ----------
    steps : int
    then : schedule, optional
        Its step 1 is the first after the warm-up; None: the full rate.
    """

    def __init__(self, steps: int, then: Schedule | None = None) -> None:
        self._steps = check_int("WarmUp: steps", steps, 1)
        self._then = None if then is None else check_schedule("WarmUp: then", then)

    def __call__(self, step: int) -> float:
        """Share of the rate that a step has."""
        if step <= self._steps:
            return step / self._steps
        return 1.0 if self._then is None else self._then(step - self._steps)


class Cosine:
    """Fall from the full rate to its ``end`` share along half a cosine, then stay there.

    Parameters
    ----------
    steps : int
        Length of the fall.
    end : float
        0 to 1.

    References
    ----------
    Loshchilov and Hutter 2017, SGDR: stochastic gradient descent with warm restarts.
    """

    def __init__(self, steps: int, end: float = 0.0) -> None:
        self._steps = check_int("Cosine: steps", steps, 1)
        self._end = check_float("Cosine: end", end, 0.0)
        if self._end > 1:
            raise rejected("Cosine: end", end, "a share of the rate, 0 to 1")

    def __call__(self, step: int) -> float:
        """Share of the rate that a step has."""
        done = min(1.0, (step - 1) / self._steps)
        return self._end + (1.0 - self._end) * 0.5 * (1.0 + math.cos(math.pi * done))


class Step:
    """Multiply the rate by a factor every so many steps, or at given ones.

    Parameters
    ----------
    at : int or mapping of int to float
        Steps between two changes; or after which step the rate is which share of the full one.
    factor : float
        With an int: what each change multiplies by.
    """

    def __init__(self, at: int | Mapping[int, float], factor: float = 0.1) -> None:
        self._every = 0
        self._shares: list[tuple[int, float]] = []
        self._factor = check_float("Step: factor", factor, 0.0)
        if isinstance(at, Mapping):
            self._shares = sorted(
                (
                    check_int("Step: step", step, 0),
                    check_float(f"Step: share from {step}", share, 0.0),
                )
                for step, share in at.items()
            )
        else:
            self._every = check_int("Step: at", at, 1)

    def __call__(self, step: int) -> float:
        """Share of the rate that a step has."""
        if self._every:
            return self._factor ** ((step - 1) // self._every)
        share = 1.0
        for after, value in self._shares:
            if step > after:
                share = value
        return share
