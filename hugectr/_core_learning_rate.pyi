# SPDX-License-Identifier: Apache-2.0
"""Learning rates, of ``hugectr._core``."""

class LearningRateScheduler:
    """A learning rate a step: warm-up, plateau, polynomial decay.

    In step s = 1, 2, ... it is ``base_lr * s / warmup_steps`` up to ``warmup_steps``, then
    ``base_lr``; with ``decay_start`` from the step behind it on
    ``base_lr * ((decay_start + decay_steps - s) / decay_steps) ** decay_power``, but no less than
    ``end_lr``, and ``end_lr`` when ``decay_steps`` steps have decayed.

    Parameters
    ----------
    base_lr : float
    warmup_steps : int
        1: no warm-up.
    decay_start : int
        0: no decay.
    decay_steps : int
    decay_power : float
        At least 1.
    end_lr : float

    Raises
    ------
    InvalidArgument
        When one of them is out of its range.
    """

    def __init__(
        self,
        base_lr: float,
        warmup_steps: int = 1,
        decay_start: int = 0,
        decay_steps: int = 1,
        decay_power: float = 2.0,
        end_lr: float = 0.0,
    ) -> None: ...
    def get_next(self) -> float:
        """The rate of the next step, which is then the current one."""

    def get_lr(self) -> float:
        """The rate that ``get_next`` returned last; 0 before."""
