# SPDX-License-Identifier: Apache-2.0
"""What a fit leaves behind: its curves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hugectr.callbacks.better import Better, better_of


@dataclass
class History:
    """Curves of a fit, as ``Model.fit`` returns them.

    Attributes
    ----------
    steps : list of int
        Steps that the model had trained when the loss was read: every ``display`` steps and at the
        end. Those of earlier fits, and of what was resumed, count.
    loss, lr : list of float
        Loss of the batch there, and its learning rate.
    seconds : list of float
        Time since the start of the fit there, evaluations and saves not counted.
    evaluations : list of dict
        ``step``, ``epoch`` (of ``RunningFit``), and the metrics by name.
    stopped : str
        Why the fit ended before its time; empty: it did not.
    trained_steps : int
        Of this fit.
    train_seconds : float
        Time it took, evaluations and saves not counted.
    batchsize : int
        Of training.
    """

    steps: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    lr: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    stopped: str = ""
    trained_steps: int = 0
    train_seconds: float = 0.0
    batchsize: int = 0
    #: What ``best`` goes by: EarlyStopping's metric, else the first that has a better and a worse.
    better: Better | None = None

    def _repr_html_(self) -> str:
        from hugectr.callbacks.curves import history_html

        return history_html(self)

    @property
    def best(self) -> dict[str, Any] | None:
        """The best evaluation; None when there is none, or no metric that says which is."""
        if not self.evaluations:
            return None
        better = self.better
        if better is None:
            known = (better_of(name) for name in self.evaluations[0])
            better = next((found for found in known if found is not None), None)
        if better is None:
            return None
        best = None
        for evaluation in self.evaluations:
            value = evaluation[better.metric]
            if better.than(value, None if best is None else best[better.metric]):
                best = evaluation
        return best
