# SPDX-License-Identifier: Apache-2.0
"""The curves of a training for TensorBoard."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from hugectr.base.arguments import check_int
from hugectr.callbacks.callback import Callback, Logs

if TYPE_CHECKING:
    from hugectr.model.model import Model
    from hugectr.spec.embedding import SparseEmbedding


class TensorBoard(Callback):
    """Write loss, learning rate and metrics as TensorBoard's event files.

    Parameters
    ----------
    folder : path-like
        What ``tensorboard --logdir`` is given.
    every : int
        Steps between two readings of the loss; 0: evaluations alone.

    Raises
    ------
    ImportError
        When the package ``tensorboard`` is missing; the message says how to install it.
    """

    def __init__(self, folder: str | os.PathLike[str], every: int = 100) -> None:
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError as error:
            raise ImportError(
                f"TensorBoard needs {error.name}, which is not installed: "
                "pip install 'hugectr[tensorboard]'"
            ) from error
        self._folder = os.fspath(folder)
        self._every = check_int("TensorBoard: every", every, 0)
        self._event, self._summary = event_pb2.Event, summary_pb2.Summary
        self._open = EventFileWriter
        self._writer: Any = None

    def on_fit_begin(self, model: Model) -> None:
        """Open an event file; process 0 does."""
        if self.fit.is_root:
            self._writer = self._open(self._folder)

    def _write(self, step: int, values: dict[str, float]) -> None:
        if self._writer is None:
            return
        summary = self._summary(
            value=[self._summary.Value(tag=tag, simple_value=v) for tag, v in values.items()]
        )
        self._writer.add_event(self._event(wall_time=time.time(), step=step, summary=summary))

    def on_step(self, step: int, logs: Logs) -> None:
        """Write loss and learning rate now and then."""
        if self._every and step % self._every == 0:
            # All processes read it: their losses are summed.
            values = {"training/loss": logs["loss"], "training/lr": logs["lr"]}
            self._write(step, values | self._lives())

    def _lives(self) -> dict[str, float]:
        """Of tables whose rows come and go or lie in several tiers, what became of them."""
        assert self.model is not None
        return {
            f"tables/{embedding.sparse_embedding_name}/{what}": float(stats[what])
            for embedding, stats in zip(
                self.model.embeddings, self.model.table_stats(), strict=True
            )
            for what in self._told(embedding, stats)
        }

    def _told(self, embedding: SparseEmbedding, stats: dict[str, int]) -> list[str]:
        told: list[str] = []
        if embedding.life.keeps_scores:
            told += ["rows", "admitted", "refused", "evicted"]
        if stats["hits"] + stats["misses"]:
            told += ["hits", "misses", "bytes_fetched", "bytes_written_back"]
        if stats["disk_rows"]:
            told += ["disk_rows", "disk_bytes_read", "disk_bytes_written", "segments_swept"]
        return told

    def on_eval(self, step: int, logs: Logs) -> None:
        """Write the metrics."""
        self._write(step, {f"evaluation/{name}": float(value) for name, value in logs.items()})
        if self._writer is not None:
            self._writer.flush()

    def on_fit_end(self, logs: Logs) -> None:
        """Close the event file."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
