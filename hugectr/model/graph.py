# SPDX-License-Identifier: Apache-2.0
"""Putting a model together: its parts, their names, the graph as JSON, compile()."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from pathlib import Path

from hugectr import _core, processes
from hugectr.base.arguments import check_names, check_path
from hugectr.base.errors import InvalidArgument, rejected
from hugectr.config.graph import read_graph, write_graph
from hugectr.config.layers import ParsedLayers
from hugectr.model.compiled_log import log_compiled
from hugectr.model.placing import frequent_of, placements_of, rows_of_plan
from hugectr.model.planned import Planned
from hugectr.model.same_data import same_data
from hugectr.model.same_model import same_model, same_plan
from hugectr.model.summary import LayerSummary, format_summary
from hugectr.model.table_memory import memory_of_tables
from hugectr.model.table_places import text_of_places
from hugectr.plan.balance import spread
from hugectr.plan.placements import PlacementPlan
from hugectr.processes.group import ProcessGroup
from hugectr.processes.solo import SoloGroup
from hugectr.spec.collection_layers import collection_parts, rename_tensor
from hugectr.spec.embedding import SparseEmbedding
from hugectr.spec.embedding_collection import EmbeddingCollectionConfig
from hugectr.spec.input import Input
from hugectr.spec.layers import DenseLayer, GroupDenseLayer
from hugectr.spec.model_arguments import model_arguments
from hugectr.spec.optimizer import OptParamsPy
from hugectr.spec.placement import Placement
from hugectr.spec.reader import DataReaderParams
from hugectr.spec.session_solver import SessionSolver
from hugectr.spec.solver import Solver
from hugectr.spec.tensor_names import TensorNames
from hugectr.spec.training_cache import EmbeddingTrainingCacheParams


def _label_of(loss: DenseLayer) -> str:
    return loss.bottom_names[1] if len(loss.bottom_names) > 1 else ""


class Graph:
    """What a model is made of: settings, input, tables, layers; compiled, the session in the core.

    Parameters
    ----------
    solver, reader_params, opt_params, etc_params
        Those of Model.
    turn : Turn
        Of the calls on the model.

    Attributes
    ----------
    fit_arguments : mapping of str to object
        What ``fit`` is called with where its caller says nothing.
    unusable : str
        Why nothing can be done with the model: a resume() that failed half way. Empty: it can.
    """

    def __init__(
        self,
        solver: Solver | SessionSolver,
        reader_params: DataReaderParams | OptParamsPy,
        opt_params: OptParamsPy | None,
        etc_params: EmbeddingTrainingCacheParams | None,
        turn: _core.Turn,
    ) -> None:
        given = model_arguments(solver, reader_params, opt_params)
        if etc_params is not None and not isinstance(etc_params, EmbeddingTrainingCacheParams):
            raise rejected("Model: etc_params", etc_params, "what hugectr.CreateETC returns")
        self.etc = etc_params or EmbeddingTrainingCacheParams()
        self.solver = given.solver
        self.opt_params = given.optimizer
        self.fit_arguments = given.fit
        self._reader: DataReaderParams | None = None
        if given.reader is not None:
            self._read_from(given.reader)
        self.input: Input | None = None
        self.embeddings: list[SparseEmbedding] = []
        self.collections: list[list[str]] = []  # names of the tables of each
        self.dense_layers: list[DenseLayer] = []
        self._names = TensorNames()
        self.processes = processes.current()
        self.unusable = ""
        self._turn = turn
        self._session: _core.Session | None = None
        self._planned: Mapping[str, Planned] | None = None
        self._frequent: dict[str, list[int]] = {}

    @property
    def reader_params(self) -> DataReaderParams:
        """Where the data comes from."""
        if self._reader is None:
            raise InvalidArgument(
                "Model: it has no reader yet; pass DataReaderParams, or add an Input with "
                "data_reader_type and source"
            )
        return self._reader

    @property
    def group(self) -> ProcessGroup:
        """The processes that the model is spread over, of which there may be one."""
        return self.processes or SoloGroup()

    @property
    def compiled(self) -> _core.Session | None:
        """The session, usable or not; None before compile()."""
        return self._session

    @property
    def table_names(self) -> list[str]:
        """Names of the tables, in the order in which they were added."""
        return [embedding.sparse_embedding_name for embedding in self.embeddings]

    def add(
        self,
        part: Input | SparseEmbedding | EmbeddingCollectionConfig | DenseLayer | GroupDenseLayer,
    ) -> None:
        """Add the input, a table, a collection of tables, a layer or a group of layers.

        Raises
        ------
        InvalidArgument
            When a bottom is unknown, a top is taken, or the order is wrong.
        """
        if self._session is not None:
            raise InvalidArgument("Model.add: the model is compiled; add everything before")
        if isinstance(part, Input):
            self._add_input(part)
        elif self.input is None:
            raise rejected("Model.add", part, "a hugectr.Input first")
        elif isinstance(part, SparseEmbedding):
            where = f"SparseEmbedding {part.sparse_embedding_name!r}: sparse_embedding_name"
            self._add_table(part, partial(self._names.define, where, part.top_name))
        elif isinstance(part, EmbeddingCollectionConfig):
            self._add_collection(part)
        elif isinstance(part, DenseLayer):
            where = f"DenseLayer {part.layer_type.name} {part.name!r}: "
            for name in part.bottom_names:
                self._names.read(where + "bottom_names", name)
            for name in part.top_names:
                self._names.define(where + "top_names", name)
            self.dense_layers.append(self._weighted(part))
        elif isinstance(part, GroupDenseLayer):
            for layer in part.layers:
                self.add(layer)
        else:
            raise rejected(
                "Model.add",
                part,
                "an Input, SparseEmbedding, EmbeddingCollectionConfig, DenseLayer or "
                "GroupDenseLayer",
            )

    def _add_table(self, part: SparseEmbedding, define: Callable[[], None]) -> None:
        """A table, when ``define`` has given its tensor a name."""
        assert self.input is not None, "add() has looked"
        if part.sparse_embedding_name in self.table_names:
            where = f"SparseEmbedding {part.sparse_embedding_name!r}: sparse_embedding_name"
            raise rejected(where, part.sparse_embedding_name, "a name that no other table has")
        for name in part.bottom_names:
            where = f"SparseEmbedding {part.sparse_embedding_name!r}: bottom_name"
            self._names.read_sparse(where, name)
        params = [self.input.sparse_param(name) for name in part.bottom_names]
        bounded = part.rows_per_gpu or part.memory or self.solver.memory
        if part.is_hybrid and not bounded:
            where = f"SparseEmbedding {part.sparse_embedding_name!r}: workspace_size_per_gpu_in_mb"
            raise rejected(where, 0, "an integer >= 1 (MiB of a device), or a memory")
        part.check_keys([nnz for one in params if one is not None for nnz in one.nnz_per_slot])
        define()
        self.embeddings.append(part)

    def _add_input(self, part: Input) -> None:
        if self.input is not None:
            raise InvalidArgument("Model.add: the model has an Input already")
        if part.reader_params is not None:
            if self._reader is not None:
                raise InvalidArgument("Model.add: the model has DataReaderParams; Input has others")
            self._read_from(part.reader_params)
        for name in part.label_names:
            self._names.define("Input: label_name", name)
        self._names.define("Input: dense_name", part.dense_name)
        for param in part.sparse:
            self._names.define("Input: top_name", param.top_name, sparse=True)
        self.input = part

    def _add_collection(self, part: EmbeddingCollectionConfig) -> None:
        """Its tables, and the layers that make its tops of their vectors."""
        assert self.input is not None, "add() has looked"
        self._names.check_free("embedding_lookup: top_name", *[top.name for top in part.tops])
        parts = collection_parts(part, self.input.sparse_param, self.solver.num_devices)
        for table in parts.embeddings:
            renamed = partial(rename_tensor, table, parts.layers)
            self._add_table(table, partial(self._names.define_yielding, table.top_name, renamed))
        for layer in parts.layers:
            self.add(layer)
        self.collections.append([table.sparse_embedding_name for table in parts.embeddings])
        part.log_placement()

    def _read_from(self, reader: DataReaderParams) -> None:
        if len(reader.sources) > 1 and not self.etc.is_used:
            raise InvalidArgument(
                f"Model: reader_params has {len(reader.sources)} sources with keysets, "
                "which need an embedding training cache: give etc_params=hugectr.CreateETC(...)"
            )
        self._reader = reader

    def _weighted(self, layer: DenseLayer) -> DenseLayer:
        """A loss with the weight of its label, unless it has one of its own."""
        assert self.input is not None, "checked by the caller"
        if not layer.is_loss or "loss_weight" in layer.parameters:
            return layer
        weights = dict(zip(self.input.label_names, self.input.label_weights, strict=True))
        return layer.with_loss_weight(weights.get(_label_of(layer), 1.0))

    def _set_loss_weights(self, names: Sequence[str], weights: Sequence[float]) -> None:
        where = "Model.compile: loss_names"
        names = check_names(where, names)
        if len(names) != len(weights):
            raise rejected("Model.compile: loss_weights", weights, f"{len(names)}, one a loss")
        for name, weight in zip(names, weights, strict=True):
            losses = [layer for layer in self.dense_layers if layer.is_loss]
            found = [layer for layer in losses if name in (layer.name, _label_of(layer))]
            if not found:
                known = sorted({n for layer in losses for n in (layer.name, _label_of(layer))})
                raise rejected(where, name, f"a loss or its label: {', '.join(known)}")
            for layer in found:
                place = self.dense_layers.index(layer)
                self.dense_layers[place] = layer.with_loss_weight(weight)

    def compile(self, loss_names: Sequence[str] = (), loss_weights: Sequence[float] = ()) -> None:
        """As ``Model.compile``."""
        if self._session is not None:
            raise InvalidArgument("Model.compile: the model is compiled already")
        if self.input is None:
            raise InvalidArgument("Model.compile: no Input was added")
        self._set_loss_weights(loss_names, loss_weights)
        if not self.dense_layers or not self.dense_layers[-1].is_loss:
            raise InvalidArgument(
                "Model.compile: the last layer must be a loss, such as BinaryCrossEntropyLoss"
            )
        self.etc.check_tables(self.table_names)
        same_plan(self.processes, self.solver)
        self.place_tables()
        solver, model = same_model(self.processes, self.solver.to_spec(), self.to_spec())
        reader = same_data(self.processes, self.reader_params, self.input)
        self._session = _core.Session(solver, reader, model, self.processes, self._turn)
        processes.end_with_job(self._session)
        log_compiled(self, solver["device"])

    def place_tables(self, plan: PlacementPlan | None = None) -> None:
        """Find out where the solver's plan, or this one, places the tables: known from then on."""
        if self._planned is None:
            self._planned = placements_of(self, plan)
            self._frequent = frequent_of(self, self._planned)

    def placed_by(self, plan: PlacementPlan) -> Graph:
        """The graph as this plan places it, where nothing has been placed yet; else itself."""
        if self._planned is not None:
            return self
        (placed := copy(self)).place_tables(plan)
        return placed

    def to_spec(self) -> _core.ModelSpec:
        """What was added, as the core takes it."""
        if self.input is None:
            raise InvalidArgument("Model.compile: no Input was added")
        devices = self.table_devices()
        tables = [self._table_spec(embedding, devices) for embedding in self.embeddings]
        for spec, memory in zip(tables, memory_of_tables(self, tables), strict=True):
            spec |= memory
            if "memory_disk" in memory and spec.get("placement") == "hybrid":
                raise InvalidArgument(
                    f"table {spec['name']!r}: Memory(disk=) can not be with placement 'hybrid', "
                    "whose two parts would have one folder: place it by key (rows used most stay "
                    "on the device anyhow)"
                )
        return {
            "input": self.input.to_spec(),
            "embeddings": tables,
            "layers": [layer.to_spec() for layer in self.dense_layers],
            "opt_params": self.opt_params.to_spec(),
        }

    def table_devices(self) -> dict[str, int]:
        """Of tables that lie on one device each: their own, or the one with the least work."""
        work, given = {}, {}
        for table in self.embeddings:
            name, placement = table.sparse_embedding_name, self._placement(table)
            if placement is None or placement.kind != "one_device":
                continue
            # What travels of a sample: work of a device grows with it.
            work[name] = float(self.slots_of(table) * table.embedding_vec_size)
            if placement.device is not None:
                given[name] = placement.device
        return spread(work, given, self.solver.num_devices)

    def _placement(self, table: SparseEmbedding) -> Placement | None:
        if (planned := self._plan_of(table).placement) is not None:
            return planned
        if table.placement is None and not self._frequent.get(table.sparse_embedding_name):
            return None  # a Hybrid without frequent keys, or on one device: by key
        return table.placement_of_type

    def slots_of(self, embedding: SparseEmbedding) -> int:
        assert self.input is not None, "tables come after it"
        params = [self.input.sparse_param(name) for name in embedding.bottom_names]
        return sum(param.slot_num for param in params if param is not None)

    def _table_spec(
        self, embedding: SparseEmbedding, devices: Mapping[str, int]
    ) -> _core.EmbeddingSpec:
        spec = embedding.to_spec(self.opt_params)
        name, placement = embedding.sparse_embedding_name, self._placement(embedding)
        if placement is not None:
            spec["placement"] = placement.kind
            spec["placement_device"] = devices.get(name, placement.device or 0)
            spec["frequent"] = self._frequent.get(name, placement.frequent or [])
        if placement is not None and self._plan_of(embedding).placement is not None:
            rows = rows_of_plan(embedding, placement.kind, self.solver, self.slots_of(embedding))
            spec |= {"workspace_size_per_gpu_in_mb": 0, "max_vocabulary_size_per_gpu": rows}
        spec["exchange"] = self.exchange_of(embedding)
        spec["wire"] = embedding.wire or self.solver.wire or "own"
        if self.etc.is_used:  # v3's budget is that of a pass; here the table keeps all of them
            spec |= {"workspace_size_per_gpu_in_mb": 0, "max_vocabulary_size_per_gpu": 0}
        return spec

    @property
    def session(self) -> _core.Session:
        """The compiled model in the core."""
        if self._session is None:
            raise InvalidArgument("the model is not compiled: call Model.compile() before")
        if self.unusable:
            raise InvalidArgument(self.unusable)
        return self._session

    def summary(self) -> None:
        """Print the layers: type, inputs, outputs, shapes; compiled, where tables lie, too."""
        print(format_summary(self.layer_summary()) + text_of_places(self, self._session))

    def exchange_of(self, table: SparseEmbedding) -> str:
        """How its vectors travel, by a plan or by itself."""
        return self._plan_of(table).exchange or table.exchange

    def _plan_of(self, table: SparseEmbedding) -> Planned:
        return (self._planned or {}).get(table.sparse_embedding_name, Planned(None))

    def layer_summary(self) -> list[LayerSummary]:
        """The rows of ``summary``: type, inputs, outputs, output shapes (None is the batch).

        Before ``compile`` too, once there is a layer that has a place in it.
        """
        rows = (
            _core.layer_summary(self.solver.to_spec(), self.to_spec())
            if self._session is None
            else self.session.summary()
        )
        return [
            (kind, bottoms, tops, [(None, *shape[1:]) for shape in shapes])
            for kind, bottoms, tops, shapes in rows
        ]

    def graph_to_json(self, graph_config_file: str | Path) -> None:
        """Write the graph as JSON, with the Slice layers that compile() put in."""
        if self.input is None:
            raise InvalidArgument("Model.graph_to_json: no Input was added")
        dense = self.dense_layers
        if self._session is not None:
            dense = [DenseLayer.from_spec(spec) for spec in self._session.network.layers()]
        write_graph(
            check_path("Model.graph_to_json: file", graph_config_file),
            self.solver.model_name,
            self.input,
            self.reader_params,
            self.embeddings,
            dense,
            self.opt_params,
            self.solver.num_devices,
            self.collections,
        )

    def add_all(self, parsed: ParsedLayers, include_dense_network: bool = True) -> None:
        """Add the layers of a config or graph file."""
        self.add(parsed.input)
        for embedding in parsed.embeddings:
            self.add(embedding)
        for layer in parsed.dense if include_dense_network else ():
            self.add(layer)
        self.collections += parsed.collections

    def construct_from_json(
        self, graph_config_file: str | Path, include_dense_network: bool = True
    ) -> None:
        """Add the input and tables, and the dense network if asked for, that a graph file holds."""
        self.add_all(read_graph(graph_config_file)[0], include_dense_network)
