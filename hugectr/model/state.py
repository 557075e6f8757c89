# SPDX-License-Identifier: Apache-2.0
"""The state of a model's training, as checkpoints see it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hugectr import _core
from hugectr.checkpoints.description import Description, description_of
from hugectr.checkpoints.state import CallbackStates
from hugectr.data.arrays import MemoryDataset
from hugectr.model.freezing import Freezing
from hugectr.model.graph import Graph
from hugectr.processes.agreement import from_root
from hugectr.processes.group import ProcessGroup

if TYPE_CHECKING:
    from hugectr.data.schema.schema import Schema


class ModelState:
    """The ``TrainingState`` of a model."""

    def __init__(self, graph: Graph, freezing: Freezing) -> None:
        self._graph = graph
        self.frozen = freezing.frozen
        self.set_frozen = freezing.set_frozen
        self.fit_epoch = 0
        #: Of the callbacks of the fit under way, or of the last one.
        self.callback_states: Callable[[], CallbackStates] = dict
        self.resumed_in: Path | None = None
        self._run_id: str | None = None
        self._schema: Schema | None = None  # what the user set
        self._saved_schema: Mapping[str, bytes] = {}  # of the checkpoint resumed from
        self._saved_in = Path()

    @property
    def session(self) -> _core.Session:
        """The compiled model in the core."""
        return self._graph.session

    @property
    def unusable(self) -> str:
        """Why nothing can be done with the model; empty: it can."""
        return self._graph.unusable

    @unusable.setter
    def unusable(self, why: str) -> None:
        self._graph.unusable = why

    @property
    def group(self) -> ProcessGroup:
        """The processes that the model is spread over."""
        return self._graph.group

    @property
    def model_name(self) -> str:
        """The solver's ``model_name``."""
        return self._graph.solver.model_name

    @property
    def table_names(self) -> list[str]:
        """Names of the tables, in the order in which they were added."""
        return self._graph.table_names

    @property
    def i64_keys(self) -> bool:
        """Whether keys are int64, else uint32."""
        return self._graph.solver.i64_input_key

    @property
    def run_id(self) -> str:
        """Identity of the run; made when it is first asked for, which is collective."""
        if self._run_id is None:
            self._run_id = from_root(self.group, lambda: secrets.token_hex(16))
        return self._run_id

    @run_id.setter
    def run_id(self, run: str | None) -> None:
        self._run_id = run

    @property
    def batchsize_eval(self) -> int:
        """Rows of an evaluation's batch."""
        return self._graph.solver.batchsize_eval

    @property
    def schema(self) -> Schema | None:
        """What was set, else what the training data was encoded with, else the checkpoint's."""
        if self._schema is not None:
            return self._schema
        source = self._graph.reader_params.source
        if isinstance(source, MemoryDataset) and source.schema is not None:
            return source.schema
        if self._saved_schema:
            # Here: pyarrow comes with it.
            from hugectr.data.schema.storage import restored

            where = f"the schema of the checkpoint that was taken from {self._saved_in}"
            self._schema = restored(where, self._saved_schema)
        return self._schema

    @schema.setter
    def schema(self, schema: Schema | None) -> None:
        self._schema = schema

    def keep_schema(self, files: Mapping[str, bytes], path: Path) -> None:
        """Keep that of a checkpoint, for a model without one of its own.

        It is read when it is asked for: one of a later version goes on as it is.
        """
        if files:
            self._saved_schema, self._saved_in = files, path

    def schema_files(self) -> Mapping[str, bytes]:
        """Files of the schema, for checkpoints."""
        source = self._graph.reader_params.source
        of_data = isinstance(source, MemoryDataset) and source.schema is not None
        if self._schema is None and not of_data:
            return self._saved_schema
        schema = self.schema
        if schema is None or not schema.fitted:
            return {}
        from hugectr.data.schema.storage import content

        return content(schema)

    def description(self) -> Description:
        """What the compiled model is, for the manifest of its checkpoints."""
        return description_of(self._graph)
