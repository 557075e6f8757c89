# SPDX-License-Identifier: Apache-2.0
"""The older API: a Session made from settings and a JSON config."""

from pathlib import Path

from hugectr.base.arguments import check_bool
from hugectr.base.errors import InvalidArgument, rejected
from hugectr.base.no_effect import warn_no_effect
from hugectr.config.config_file import read_config
from hugectr.model.from_config import build_model
from hugectr.model.model import Model, ModelDataReader
from hugectr.model.oversubscriber import ModelOversubscriber
from hugectr.spec.session_solver import NO_FOLDER, SessionSolver


class Session:
    """A training run described by a JSON config.

    Parameters
    ----------
    solver_config : SessionSolver
        What ``solver_parser_helper`` or ``SolverParser`` returns; wins over the file's own
        ``solver`` object.
    config_file : path
        JSON with ``optimizer``, ``layers`` and possibly ``solver``.
    use_model_oversubscriber : bool
        Tables have no bound, and there is a ``get_model_oversubscriber()``.
    temp_embedding_dir : str
        Accepted and without effect: rows stay in memory.

    Raises
    ------
    InvalidArgument
        Names the JSON path or argument, what was found and what is allowed.
    """

    _oversubscribes = False

    def __init__(
        self,
        solver_config: SessionSolver,
        config_file: str | Path,
        use_model_oversubscriber: bool = False,
        temp_embedding_dir: str = "",
    ) -> None:
        if not isinstance(solver_config, SessionSolver):
            raise rejected(
                "Session: solver_config", solver_config, "what hugectr.solver_parser_helper returns"
            )
        self._oversubscribes = (
            check_bool("Session: use_model_oversubscriber", use_model_oversubscriber)
            or solver_config.use_model_oversubscriber
        )
        if temp_embedding_dir:
            warn_no_effect("Session", "temp_embedding_dir", NO_FOLDER)
        self._config = read_config(config_file, solver_config)
        self._model = build_model(self._config, self._oversubscribes)

    @property
    def model(self) -> Model:
        """The model behind this session, with everything the newer API offers."""
        return self._model

    def start_data_reading(self) -> None:
        """Start the reader threads."""
        self._model.start_data_reading()

    def train(self, is_first_batch: bool = True) -> bool:
        """Train one batch; False at the end of the data (epoch mode)."""
        return self._model.train(is_first_batch)

    def eval(self, eval_batch: int = -1, *, is_first_batch: bool = True) -> bool:
        """Evaluate one batch; False at the end of the data."""
        return self._model.eval(eval_batch, is_first_batch=is_first_batch)

    def get_eval_metrics(self) -> list[tuple[str, float]]:
        """Metrics over all eval() calls since this was last called; without any, those of then."""
        return self._model.get_eval_metrics()

    def evaluation(
        self, export_predictions_out_file: str = "", export_labels_out_file: str = ""
    ) -> list[tuple[str, float]]:
        """Evaluate ``max_eval_batches`` batches, or all there are, and return the metrics.

        Parameters
        ----------
        export_predictions_out_file, export_labels_out_file : path
            Text files to write all predictions and labels to, a number a line; empty: neither is
            written.
        """
        predictions, labels = export_predictions_out_file, export_labels_out_file
        if not predictions and not labels:
            return list(self._model.evaluate().items())
        for file, other in ((predictions, "labels"), (labels, "predictions")):
            if not file:
                raise rejected("Session.evaluation: export files", file, f"a path, as for {other}")
        model = self._model
        if model.processes is None or model.processes.rank == 0:
            for file in (predictions, labels):
                Path(file).unlink(missing_ok=True)
        if not model.solver.repeat_dataset:
            model.restart_evaluation_data()
        for _ in range(model.solver.max_eval_batches):
            if not model.eval():
                break
            model.export_predictions(predictions, labels)
        return model.get_eval_metrics()

    def get_current_loss(self) -> float:
        """Loss of the last trained batch."""
        return self._model.get_current_loss()

    def set_learning_rate(self, lr: float) -> None:
        """Set the learning rate of the following steps."""
        self._model.set_learning_rate(lr)

    def download_params_to_files(self, prefix: str, iter: int = 0) -> None:
        """Write weights and optimizer states."""
        self._model.save_params_to_files(prefix, iter)

    def init_params(self, model_file: str | Path) -> None:
        """Load dense weights."""
        self._model.load_dense_weights(model_file)

    def get_model_oversubscriber(self) -> ModelOversubscriber:
        """What stores tables and makes ready for a pass, with ``use_model_oversubscriber``."""
        if not self._oversubscribes:
            raise InvalidArgument(
                "Session.get_model_oversubscriber: make the session with "
                "use_model_oversubscriber=True"
            )
        return ModelOversubscriber(self._model)

    def get_params_num(self) -> int:
        """Number of trainable values."""
        return self._model.get_params_num()

    def check_overflow(self) -> None:
        """Nothing to check: a full table stops the training before a batch that would lose keys."""

    def copy_weights_for_evaluation(self) -> None:
        """Nothing to copy: evaluation reads the weights that training writes."""

    def get_data_reader_train(self) -> ModelDataReader:
        """The training reader."""
        return self._model.get_data_reader_train()

    def get_data_reader_eval(self) -> ModelDataReader:
        """The evaluation reader."""
        return self._model.get_data_reader_eval()
