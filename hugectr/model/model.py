# SPDX-License-Identifier: Apache-2.0
"""Training, saving and looking into a model."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hugectr import _core
from hugectr._core import serialised, unserialised
from hugectr.base import log
from hugectr.base.arguments import check_enum, check_float, check_str
from hugectr.base.errors import rejected
from hugectr.model.fit import Checkpoints, Fit
from hugectr.model.memory import ModelMemory
from hugectr.model.original_files import ModelFiles
from hugectr.model.timing import ModelTiming
from hugectr.spec.enums import Tensor_t
from hugectr.spec.reader import one_source


class ModelLearningRateScheduler:
    """The schedule of a model, as ``Model.get_learning_rate_scheduler`` gives it."""

    def __init__(self, session: _core.Session) -> None:
        self._session = session

    def get_next(self) -> float:
        """Go on to the next step and return its learning rate."""
        return self._session.get_next_lr()


class ModelDataReader:
    """The training or evaluation reader of a model."""

    def __init__(self, model: "Model", train: bool) -> None:
        self._model = model
        self._train = train

    def set_source(self, file_name: str = "") -> None:
        """Start over, from another file list if one is named."""
        if self._train:
            self._model.restart_training_data(file_name)
        else:
            self._model.restart_evaluation_data(file_name)

    def is_eof(self) -> bool:
        """Whether the last train() found no more data (training reader, epoch mode)."""
        return self._train and self._model.session.train_data_at_end()


@serialised
class Model(ModelMemory, ModelFiles, ModelTiming):
    """A model: an input, embedding tables, a dense network, and the run that trains them.

    Several threads may call it: their calls take turns (``exclusive``).

    Parameters
    ----------
    solver : Solver
        What ``CreateSolver`` returns.
    reader_params : DataReaderParams
    opt_params : OptParamsPy
        What ``CreateOptimizer`` returns; tables may have their own.
    etc_params : None
        Of the embedding training cache, which this version does not have.

    Examples
    --------
    ``add`` an Input, then SparseEmbedding and DenseLayer objects (the loss last), ``compile``,
    ``fit``.
    """

    # --- training -------------------------------------------------------------------------------

    @unserialised  # takes a turn a step
    def fit(
        self,
        num_epochs: int = 0,
        max_iter: int = 2000,
        display: int = 200,
        eval_interval: int = 1000,
        snapshot: int = 10000,
        snapshot_prefix: str = "",
        *,
        progress: bool = False,
        checkpoint_dir: str | Path = "",
        checkpoint_interval: int = 0,
        keep_last: int = 2,
        background_save: bool = True,
        resume: bool = False,
        checkpoint_deltas: int = 0,
        show_pipeline: bool = False,
    ) -> None:
        """Train. Between two steps other threads' calls get their turn.

        Parameters
        ----------
        num_epochs : int
            Epoch mode (``repeat_dataset=False``): passes over the data, at least 1.
        max_iter : int
            Iteration mode: steps.
        display, eval_interval, snapshot : int
            Steps between log lines, evaluations and checkpoints; 0: never.
        snapshot_prefix : str
            Start of the checkpoint file names.
        progress : bool
            Show a progress bar when standard output is a terminal.
        checkpoint_dir : path
            Folder of native checkpoints (see ``save``), of this run alone; empty: none are written.
        checkpoint_interval : int
            Steps between them; 0: one at the end.
        keep_last : int
            How many are kept there; 0: all.
        background_save : bool
            Write them while training goes on.
        resume : bool
            Go on from the newest checkpoint of ``checkpoint_dir`` if there is one; iterations and
            epochs then count on from its own.
        checkpoint_deltas : int
            Checkpoints with only the rows touched since the one before, between two full ones.
        show_pipeline : bool
            With every log line one about reading: time and queue depth of its stages, and who waits
            for whom.

        Raises
        ------
        NonFiniteLoss
            ``Loss cannot converge``: as in ``train``, and before anything is saved.
        InvalidArgument
            Before the first step, when ``checkpoint_dir`` has checkpoints of another run, or later
            ones than the model's step.
        """
        Fit(
            self,
            num_epochs,
            max_iter,
            display,
            eval_interval,
            snapshot,
            snapshot_prefix,
            progress,
            Checkpoints(
                checkpoint_dir,
                checkpoint_interval,
                keep_last,
                background_save,
                resume,
                checkpoint_deltas,
            ),
            show_pipeline,
        ).run()

    def start_data_reading(self) -> None:
        """Start the reader threads; train() and eval() do so themselves when needed."""
        self.session.start_data_reading()

    def train(self) -> bool:
        """Train one batch; False at the end of the data (epoch mode), then nothing has trained.

        Raises
        ------
        NonFiniteLoss
            Within 20 steps after a loss that was NaN or infinite, and at the end of the data; on
            all processes of a job in the same call, which has trained nothing. With loss scaling
            (float16) single steps without a finite loss are skipped, and eight in a row count.
            Weights are not rolled back: ``resume`` a checkpoint, or give up.
        """
        return self.session.train()

    def check_loss(self) -> None:
        """Wait for all steps and raise ``NonFiniteLoss`` if one of them had no finite loss.

        The same is raised when a dense weight is not finite. ``save`` and ``fit`` call this before
        they write anything; in a job of several processes all of them call it.
        """
        self.session.check_loss()

    def eval(self) -> bool:
        """Evaluate one batch; False at the end of the data, where it then starts over."""
        if self.session.eval():
            return True
        self.session.set_eval_source("")
        return False

    def eval_batches(self) -> int:
        """One evaluation: ``max_eval_batches`` batches, or all there are. Returns how many."""
        if not self.solver.repeat_dataset:
            self.restart_evaluation_data()
        batches = 0
        while batches < self.solver.max_eval_batches and self.eval():
            batches += 1
        return batches

    def evaluate(self) -> dict[str, float]:
        """Metrics of one evaluation; empty when the reader has no eval_source."""
        if not self.reader_params.has_eval_source:
            log.info("No evaluation: the reader has no eval_source")
            return {}
        self.eval_batches()
        return dict(self.get_eval_metrics())

    def get_current_loss(self) -> float:
        """Loss of the last trained batch, mean over its samples, regulariser included.

        Evaluations in between do not change it.
        """
        return self.session.get_current_loss()

    def get_eval_metrics(self) -> list[tuple[str, float]]:
        """Metrics over all eval() calls since this was last called."""
        return self.session.get_eval_metrics()

    def set_source(self, source: str | Sequence[str], eval_source: str = "") -> None:
        """Start over from file lists; an empty name keeps the one in use."""
        name = one_source("set_source: source", source)
        self.restart_training_data(check_str("set_source: source", name))
        if self.reader_params.has_eval_source or eval_source:
            self.restart_evaluation_data(check_str("set_source: eval_source", eval_source))

    def restart_training_data(self, source: str = "") -> None:
        """Start the training data over."""
        if source and not isinstance(self.reader_params.source, str):
            raise rejected("set_source: source", source, "'' for data in memory")
        self.session.set_source(source)

    def restart_evaluation_data(self, source: str = "") -> None:
        """Start the evaluation data over."""
        if source and not isinstance(self.reader_params.eval_source, str):
            raise rejected("set_source: eval_source", source, "'' for data in memory")
        self.session.set_eval_source(source)

    def get_data_reader_train(self) -> ModelDataReader:
        """The training reader."""
        return ModelDataReader(self, True)

    def get_data_reader_eval(self) -> ModelDataReader:
        """The evaluation reader."""
        return ModelDataReader(self, False)

    # --- learning rate --------------------------------------------------------------------------

    def set_learning_rate(self, lr: float) -> None:
        """Set the learning rate of the following steps."""
        self.session.set_learning_rate(check_float("set_learning_rate: lr", lr, 0.0))

    def next_learning_rate(self) -> float:
        """Go on in the schedule and use its rate for the next step."""
        lr = self.session.get_next_lr()
        self.session.set_learning_rate(lr)
        return lr

    def get_learning_rate_scheduler(self) -> ModelLearningRateScheduler:
        """The schedule; its ``get_next()`` goes with ``set_learning_rate``."""
        return ModelLearningRateScheduler(self.session)

    def reset_learning_rate_scheduler(
        self,
        base_lr: float,
        warmup_steps: int = 1,
        decay_start: int = 0,
        decay_steps: int = 1,
        decay_power: float = 2.0,
        end_lr: float = 0.0,
    ) -> None:
        """Start a new schedule."""
        self.session.reset_learning_rate_scheduler(
            base_lr, warmup_steps, decay_start, decay_steps, decay_power, end_lr
        )

    # --- freezing -------------------------------------------------------------------------------

    def _set_trainable(self, name: str, trainable: bool) -> None:
        if self._session is not None:
            self._session.set_trainable(name, trainable)
        if trainable:
            self._frozen.discard(name)
        else:
            self._frozen.add(name)

    def _tables(self, name: str | None) -> list[str]:
        names = [embedding.sparse_embedding_name for embedding in self.embeddings]
        if name is None:
            return names
        if name not in names:
            raise rejected("embedding", name, f"one of {names}")
        return [name]

    def freeze_embedding(self, embedding_name: str | None = None) -> None:
        """Keep a table, or all tables, as they are while training goes on."""
        for name in self._tables(embedding_name):
            self._set_trainable(name, False)

    def unfreeze_embedding(self, embedding_name: str | None = None) -> None:
        """Train a table, or all tables, again."""
        for name in self._tables(embedding_name):
            self._set_trainable(name, True)

    def freeze_dense(self) -> None:
        """Keep the dense network as it is while training goes on."""
        self._set_trainable("", False)

    def unfreeze_dense(self) -> None:
        """Train the dense network again."""
        self._set_trainable("", True)

    def trainable(self) -> tuple[bool, bool]:
        """Whether all tables, and whether the dense network, are trained."""
        return not (self._frozen - {""}), "" not in self._frozen

    # --- looking inside -------------------------------------------------------------------------

    def check_out_tensor(
        self, tensor_name: str, tensor_type: Tensor_t = Tensor_t.Train
    ) -> npt.NDArray[np.float32]:
        """Value of a tensor after the last train() or eval(), the whole global batch.

        The original returned gradients for ``Tensor_t.Train``; here it is the value.
        """
        kind = check_enum("check_out_tensor: tensor_type", tensor_type, Tensor_t)
        return self.session.check_out_tensor(tensor_name, kind is Tensor_t.Train)

    def table_stats(self) -> list[dict[str, int]]:
        """Rows, budget, index places and bytes of each table; planned batches whose
        distinct rows travel between devices.

        See ``exchange`` of :class:`hugectr.SparseEmbedding` for the last, ``unique_plans``.
        """
        return self.session.table_stats()

    def loss_scale(self) -> float:
        """float16: what the gradients of the next step are multiplied by; 1 without scaling."""
        return self.session.loss_scale()

    def skipped_steps(self) -> int:
        """Steps that changed nothing because a gradient overflowed float16."""
        return self.session.skipped_steps()

    def memory_report(self) -> list[tuple[str, str, int]]:
        """Who holds how much memory: owner, name, bytes."""
        return self.session.memory_report()

    def get_params_num(self) -> int:
        """Number of trainable values: dense weights and the rows that tables hold."""
        sizes = [embedding.embedding_vec_size for embedding in self.embeddings]
        rows = [stats["rows"] for stats in self.table_stats()]
        sparse = sum(n * d for n, d in zip(rows, sizes, strict=True))
        return int(self.session.dense_weights().size) + sparse
