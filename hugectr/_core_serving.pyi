# SPDX-License-Identifier: Apache-2.0
"""Predictions of the core."""

from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from hugectr._core_session import Session

Csr = tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]

class SavedDescription(TypedDict):
    path: str
    step: int
    batchsize_eval: int  # 0: the checkpoint does not say
    model: str  # JSON; "": it is not described
    schema: str  # JSON: name of a file -> its entry in the manifest
    table_rows: list[int]  # of all links; what is in several counts as often

def read_description(path: str) -> SavedDescription:
    """All that a checkpoint says but its weights, checked; InvalidArgument, DataError as load."""

class Predictor:
    """Predictions from any number of threads, of a session with one device that stays as it is."""

    def __init__(self, session: Session) -> None: ...
    @property
    def session(self) -> Session: ...
    def predict(
        self,
        count: int,
        dense: npt.NDArray[np.float32],
        sparse: Sequence[Csr],
        output: str = "probability",
        batch_size: int = 0,
    ) -> npt.NDArray[np.float32]:
        """``batch_size`` 0: the solver's, and less for fewer samples."""

    def executions(self) -> int:
        """How many threads have predicted at once, a size of batch each."""

class LivePredictor:
    """Predictions and metrics of a session between two steps, on all its devices."""

    def __init__(self, session: Session, batch_size: int) -> None: ...
    @property
    def session(self) -> Session: ...
    def predict(
        self,
        count: int,
        dense: npt.NDArray[np.float32],
        sparse: Sequence[Csr],
        output: str = "probability",
    ) -> npt.NDArray[np.float32]: ...
    def evaluate(
        self,
        count: int,
        label: npt.NDArray[np.float32],
        dense: npt.NDArray[np.float32],
        sparse: Sequence[Csr],
        metrics: Sequence[str],
        weight: npt.NDArray[np.float32] | None = None,
    ) -> list[tuple[str, Any]]: ...
