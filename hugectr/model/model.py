# SPDX-License-Identifier: Apache-2.0
"""A model as scripts know it: one class, whose calls its parts carry out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hugectr import _core
from hugectr._core import Turn, serialised, unserialised
from hugectr.base.errors import InvalidArgument, rejected
from hugectr.base.handed_on import handed_on
from hugectr.model.checkpoints import Checkpoints
from hugectr.model.collection_files import CollectionFiles
from hugectr.model.fitting import Fitting
from hugectr.model.forgetting import Forgetting
from hugectr.model.freezing import Freezing
from hugectr.model.graph import Graph
from hugectr.model.inspection import Inspection
from hugectr.model.memory import Memory
from hugectr.model.original_files import OriginalFiles
from hugectr.model.prediction import Prediction
from hugectr.model.reporting import Reporting
from hugectr.model.shown_in_notebooks import model_html
from hugectr.model.state import ModelState
from hugectr.model.table_source import TablesOfModel
from hugectr.model.timing import Timing
from hugectr.model.training import Training
from hugectr.model.training_cache import TrainingCache
from hugectr.processes.group import ProcessGroup
from hugectr.spec.embedding import SparseEmbedding
from hugectr.spec.input import Input
from hugectr.spec.layers import DenseLayer
from hugectr.spec.optimizer import OptParamsPy
from hugectr.spec.reader import DataReaderParams
from hugectr.spec.session_solver import SessionSolver
from hugectr.spec.solver import Solver
from hugectr.spec.training_cache import EmbeddingTrainingCacheParams
from hugectr.vectors.vectors import EmbeddingVectors

if TYPE_CHECKING:
    from hugectr.data.schema.schema import Schema


class ModelDataReader:
    """The training or evaluation reader of a model."""

    def __init__(self, model: Model, train: bool) -> None:
        self._model = model
        self._train = train

    def set_source(self, file_name: str = "") -> None:
        """Start over, from another file list if one is named."""
        if self._train:
            self._model.restart_training_data(file_name)
        else:
            self._model.restart_evaluation_data(file_name)

    def is_eof(self) -> bool:
        """Whether the last train(), or eval(), found no more data (epoch mode)."""
        reader = self._model.session.reader
        return reader.at_end() if self._train else reader.eval_at_end()


@serialised
class Model:
    """A model: an input, embedding tables, a dense network, and the run that trains them.

    Several threads may call it: their calls take turns (``exclusive``).

    Parameters
    ----------
    solver : Solver
        What ``CreateSolver`` returns; v3.0 form: what ``solver_parser_helper`` returns.
    reader_params : DataReaderParams
        v3.0 form: left out, and the Input says where the data is.
    opt_params : OptParamsPy
        What ``CreateOptimizer`` returns; tables may have their own.
    etc_params : EmbeddingTrainingCacheParams, optional
        What ``CreateETC`` returns.

    Examples
    --------
    ``add`` an Input, then SparseEmbedding and DenseLayer objects (the loss last), ``compile``,
    ``fit``.
    """

    def __init__(
        self,
        solver: Solver | SessionSolver,
        reader_params: DataReaderParams | OptParamsPy,
        opt_params: OptParamsPy | None = None,
        etc_params: EmbeddingTrainingCacheParams | None = None,
    ) -> None:
        self._turn = Turn("model")
        self._graph = Graph(solver, reader_params, opt_params, etc_params, self._turn)
        self._freezing = Freezing(self._graph)
        self._training = Training(self._graph)
        self._inspection = Inspection(self._graph)
        self._memory = Memory(self._graph)
        self._timing = Timing(self._graph)
        self._state = ModelState(self._graph, self._freezing)
        self._checkpoints = Checkpoints(self._state, self._turn)
        self._forgetting = Forgetting(self._state)
        self._cache = TrainingCache(self._graph, self._state, self._training)
        self._prediction = Prediction(self._graph, self._state)
        self._original_files = OriginalFiles(self._state, self._graph.etc.saved_to)
        self._collection_files = CollectionFiles(self._state, self._graph)
        self._fitting = Fitting(self, self._state, self._graph)
        self._reporting = Reporting(self._fitting, self._timing)
        self._vectors = EmbeddingVectors(TablesOfModel(self._state, self._graph), self._state.group)

    @unserialised
    def exclusive(self) -> Turn:
        """Context in which no other thread's call on this model comes between one's own.

        Calls of several threads on one model take turns by themselves, call by call and in the
        order in which they came; fit() step by step, so that another thread may save a model that
        trains. A call may come from inside another one, in the same thread. In a job of several
        processes all of them must make their calls in the same order, whatever their threads.
        After a fork the model belongs to the parent alone: every call in the child raises.
        """
        return self._turn

    # --- what it is made of -----------------------------------------------------------------------

    @property
    def solver(self) -> Solver:
        """Settings; those of the optimizer's schedule are in them."""
        return self._graph.solver

    @property
    def reader_params(self) -> DataReaderParams:
        """Where the data comes from."""
        return self._graph.reader_params

    @property
    def opt_params(self) -> OptParamsPy:
        """The optimizer of the dense network, and of tables without their own."""
        return self._graph.opt_params

    @property
    def input(self) -> Input | None:
        """What was added as input."""
        return self._graph.input

    @property
    def embeddings(self) -> list[SparseEmbedding]:
        """The tables, in the order in which they were added."""
        return self._graph.embeddings

    @property
    def dense_layers(self) -> list[DenseLayer]:
        """The layers, in the order in which they were added."""
        return self._graph.dense_layers

    @property
    def processes(self) -> ProcessGroup | None:
        """The processes that the model is spread over, when they are several."""
        return self._graph.processes

    @property
    def session(self) -> _core.Session:
        """The compiled model in the core."""
        return self._graph.session

    @property
    def training_cache(self) -> TrainingCache:
        """Sources and keysets of the embedding training cache."""
        return self._cache

    @property
    def unusable(self) -> str:
        """Why nothing can be done with the model: resume() failed half way. Empty: it can."""
        return self._graph.unusable

    add = handed_on("_graph", Graph.add)
    add_all = handed_on("_graph", Graph.add_all)

    def compile(self, loss_names: Sequence[str] = (), loss_weights: Sequence[float] = ()) -> None:
        """Build the model on its devices; nothing can be added after.

        Parameters
        ----------
        loss_names : list of str
            Losses by the name of their layer or of their label, to give them weights.
        loss_weights : list of float
            Their parts in the sum that training minimises, instead of ``Input.label_weights`` and
            ``DenseLayer.loss_weight``.

        Raises
        ------
        InvalidArgument
            A ValueError that names what is missing or wrong.
        """
        self._graph.compile(loss_names, loss_weights)
        self._freezing.apply()
        self._cache.load_models()

    summary = handed_on("_graph", Graph.summary)

    def _repr_html_(self) -> str:
        return model_html(self, self._graph.compiled is not None and not self.unusable)

    layer_summary = handed_on("_graph", Graph.layer_summary)
    graph_to_json = handed_on("_graph", Graph.graph_to_json)
    construct_from_json = handed_on("_graph", Graph.construct_from_json)

    # --- training ---------------------------------------------------------------------------------

    fit = handed_on("_fitting", Fitting.fit)
    start_data_reading = handed_on("_training", Training.start_data_reading)
    train = handed_on("_training", Training.train)
    check_loss = handed_on("_training", Training.check_loss)
    eval = handed_on("_training", Training.eval)
    export_predictions = handed_on("_training", Training.export_predictions)
    eval_batches = handed_on("_training", Training.eval_batches)
    evaluate = handed_on("_training", Training.evaluate)
    get_current_loss = handed_on("_training", Training.get_current_loss)
    get_current_losses = handed_on("_training", Training.get_current_losses)
    get_eval_metrics = handed_on("_training", Training.get_eval_metrics)
    set_source = handed_on("_cache", TrainingCache.set_source)
    get_embedding_training_cache = handed_on("_cache", TrainingCache.get_embedding_training_cache)
    get_model_oversubscriber = handed_on("_cache", TrainingCache.get_model_oversubscriber)
    restart_training_data = handed_on("_training", Training.restart_training_data)
    restart_evaluation_data = handed_on("_training", Training.restart_evaluation_data)

    def get_data_reader_train(self) -> ModelDataReader:
        """The training reader."""
        return ModelDataReader(self, True)

    def get_data_reader_eval(self) -> ModelDataReader:
        """The evaluation reader."""
        return ModelDataReader(self, False)

    # --- learning rate ----------------------------------------------------------------------------

    set_learning_rate = handed_on("_training", Training.set_learning_rate)
    next_learning_rate = handed_on("_training", Training.next_learning_rate)
    get_learning_rate_scheduler = handed_on("_training", Training.get_learning_rate_scheduler)
    reset_learning_rate_scheduler = handed_on("_training", Training.reset_learning_rate_scheduler)

    # --- freezing ---------------------------------------------------------------------------------

    freeze_embedding = handed_on("_freezing", Freezing.freeze_embedding)
    unfreeze_embedding = handed_on("_freezing", Freezing.unfreeze_embedding)
    freeze_dense = handed_on("_freezing", Freezing.freeze_dense)
    unfreeze_dense = handed_on("_freezing", Freezing.unfreeze_dense)
    trainable = handed_on("_freezing", Freezing.trainable)
    frozen = handed_on("_freezing", Freezing.frozen)
    set_frozen = handed_on("_freezing", Freezing.set_frozen)

    # --- looking inside ---------------------------------------------------------------------------

    check_out_tensor = handed_on("_inspection", Inspection.check_out_tensor)
    table_stats = handed_on("_inspection", Inspection.table_stats)
    evict = handed_on("_forgetting", Forgetting.evict)
    loss_scale = handed_on("_inspection", Inspection.loss_scale)
    skipped_steps = handed_on("_inspection", Inspection.skipped_steps)
    memory_report = handed_on("_inspection", Inspection.memory_report)
    plan = handed_on("_inspection", Inspection.plan)
    get_params_num = handed_on("_inspection", Inspection.get_params_num)

    report = handed_on("_reporting", Reporting.report)

    # --- time -------------------------------------------------------------------------------------

    stage_seconds = handed_on("_timing", Timing.stage_seconds)
    stage_seconds_to_log = handed_on("_timing", Timing.stage_seconds_to_log)
    reader_metrics = handed_on("_timing", Timing.reader_metrics)
    reader_metrics_to_log = handed_on("_timing", Timing.reader_metrics_to_log)
    profile = handed_on("_timing", Timing.profile)

    # --- memory -----------------------------------------------------------------------------------

    tensor = handed_on("_memory", Memory.tensor)
    dense_weight_names = handed_on("_memory", Memory.dense_weight_names)
    dense_weight = handed_on("_memory", Memory.dense_weight)
    set_dense_weight = handed_on("_memory", Memory.set_dense_weight)
    dense_state_names = handed_on("_memory", Memory.dense_state_names)
    dense_state = handed_on("_memory", Memory.dense_state)
    running_statistics = handed_on("_memory", Memory.running_statistics)
    set_running_statistics = handed_on("_memory", Memory.set_running_statistics)
    set_dense_weights = handed_on("_memory", Memory.set_dense_weights)
    table = handed_on("_memory", Memory.table)
    set_table_rows = handed_on("_memory", Memory.set_table_rows)
    wait_for_stream = handed_on("_memory", Memory.wait_for_stream)

    # --- embedding vectors -----------------------------------------------------------------------

    embedding = handed_on("_vectors", EmbeddingVectors.embedding)
    nearest = handed_on("_vectors", EmbeddingVectors.nearest)
    export_table = handed_on("_vectors", EmbeddingVectors.export_table)

    # --- checkpoints ------------------------------------------------------------------------------

    save = handed_on("_checkpoints", Checkpoints.save)

    def dump_incremental_model_2kafka(self) -> None:
        """Of old scripts: refused, for there is no Kafka here.

        Raises
        ------
        InvalidArgument
            Says what to use instead.
        """
        raise InvalidArgument(
            "dump_incremental_model_2kafka: there is no Kafka client here; send what "
            "get_incremental_model() returns with any client ('Rows to a server' in "
            "docs/checkpoints.md), or save(folder, delta=True) for hugectr.load"
        )

    note_touched_rows = handed_on("_checkpoints", Checkpoints.note_touched_rows)
    get_incremental_model = handed_on("_checkpoints", Checkpoints.get_incremental_model)
    save_is_under_way = handed_on("_checkpoints", Checkpoints.save_is_under_way)
    wait_for_save = handed_on("_checkpoints", Checkpoints.wait_for_save)
    check_checkpoint_folder = handed_on("_checkpoints", Checkpoints.check_checkpoint_folder)
    latest_checkpoint = handed_on("_checkpoints", Checkpoints.latest_checkpoint)
    resume = handed_on("_checkpoints", Checkpoints.resume)
    load_weights = handed_on("_checkpoints", Checkpoints.load_weights)

    # --- prediction -------------------------------------------------------------------------------

    predict = handed_on("_prediction", Prediction.predict)

    @property
    def schema(self) -> Schema | None:
        """What the data is encoded with; saved with every native checkpoint.

        That of the training data (``Schema.encode``), unless another is set; a model without one
        has that of the checkpoint it was resumed from. None: there is none.
        """
        return self._state.schema

    @schema.setter
    def schema(self, schema: Schema | None) -> None:
        # Who has a schema has loaded pyarrow; other models do without.
        from hugectr.data.schema.schema import Schema

        if schema is not None and not isinstance(schema, Schema):
            raise rejected("Model.schema", schema, "a hugectr.data.Schema or None")
        self._state.schema = schema

    @property
    def fit_epoch(self) -> int:
        """Epoch that fit() is in (epoch mode): part of what a checkpoint goes on from."""
        return self._state.fit_epoch

    @fit_epoch.setter
    def fit_epoch(self, epoch: int) -> None:
        self._state.fit_epoch = epoch

    @property
    def run_id(self) -> str:
        """Identity of the run that trains this model: 32 hex characters, in all its checkpoints.

        It is made when it is first asked for, which is collective; who resumes goes on with that of
        the checkpoint.
        """
        return self._state.run_id

    @run_id.setter
    def run_id(self, run: str | None) -> None:
        self._state.run_id = run

    @property
    def resumed_in(self) -> Path | None:
        """Folder of the checkpoint that the model was resumed from, without links in it."""
        return self._state.resumed_in

    # --- files of the original layout -------------------------------------------------------------

    save_params_to_files = handed_on("_original_files", OriginalFiles.save_params_to_files)
    save_sparse_weights = handed_on("_original_files", OriginalFiles.save_sparse_weights)
    load_dense_weights = handed_on("_original_files", OriginalFiles.load_dense_weights)
    load_sparse_weights = handed_on("_original_files", OriginalFiles.load_sparse_weights)
    load_dense_optimizer_states = handed_on(
        "_original_files", OriginalFiles.load_dense_optimizer_states
    )
    load_sparse_optimizer_states = handed_on(
        "_original_files", OriginalFiles.load_sparse_optimizer_states
    )
    embedding_dump = handed_on("_collection_files", CollectionFiles.embedding_dump)
    embedding_load = handed_on("_collection_files", CollectionFiles.embedding_load)


#: The name that scripts of the MLPerf benchmark use.
ModelPerfExt = Model
