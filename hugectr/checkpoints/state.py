# SPDX-License-Identifier: Apache-2.0
"""What checkpoints know of a model: its state, as they take and give it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from hugectr.checkpoints.description import Description
from hugectr.processes.group import ProcessGroup

if TYPE_CHECKING:
    from hugectr._core import Session

#: Callback -> plain values by name.
CallbackStates = Mapping[str, Mapping[str, Any]]


class Weighted(Protocol):
    """What has dense weights and tables, by their names."""

    @property
    def session(self) -> Session:
        """Weights, rows, states of optimizers, and the place in the data, in the core."""
        ...

    @property
    def table_names(self) -> list[str]:
        """Names of the tables, in the order of the session's."""
        ...


class LoadedModel(Weighted, Protocol):
    """What the files of a model are written from and read into."""

    @property
    def group(self) -> ProcessGroup:
        """The processes that the state is spread over."""
        ...

    @property
    def i64_keys(self) -> bool:
        """Whether keys are int64, else uint32."""
        ...


class TrainingState(LoadedModel, Protocol):
    """The state of a training: what it goes on from, and who has it.

    Attributes
    ----------
    fit_epoch : int
        Epoch that fit() is in (epoch mode).
    resumed_in : Path or None
        Folder of the checkpoint that the training went on from, without links in it.
    unusable : str
        Why nothing can be done with the state: it was replaced in part. Empty: it can.
    """

    fit_epoch: int
    resumed_in: Path | None
    unusable: str

    @property
    def model_name(self) -> str:
        """Name of the model; a checkpoint keeps it and compares it with nothing."""
        ...

    @property
    def run_id(self) -> str:
        """Identity of the run: 32 hex characters. Made when first asked for, which is collective.

        None set: the next that asks makes a new one.
        """
        ...

    @run_id.setter
    def run_id(self, run: str | None) -> None: ...

    def description(self) -> Description:
        """Of which model it is the state."""
        ...

    def callback_states(self) -> CallbackStates:
        """What the callbacks of fit() want kept."""
        ...

    @property
    def batchsize_eval(self) -> int:
        """Rows of an evaluation's batch; a checkpoint keeps it and compares it with nothing."""
        ...

    def schema_files(self) -> Mapping[str, bytes]:
        """Files of the schema of the training data, by name; none: it has none."""
        ...

    def keep_schema(self, files: Mapping[str, bytes], path: Path) -> None:
        """Keep the files of a checkpoint's schema, where there is none of its own."""
        ...

    def frozen(self) -> set[str]:
        """Names of the tables that are not trained; "" stands for the dense network."""
        ...

    def set_frozen(self, names: set[str]) -> None:
        """Freeze these and nothing else."""
        ...
