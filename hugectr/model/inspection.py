# SPDX-License-Identifier: Apache-2.0
"""Values and counters of a compiled model."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hugectr.base.arguments import check_enum
from hugectr.model.graph import Graph
from hugectr.spec.enums import Tensor_t


class Inspection:
    """Looks into a compiled model; copies, not its memory."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def check_out_tensor(
        self, tensor_name: str, tensor_type: Tensor_t = Tensor_t.Train
    ) -> npt.NDArray[np.float32]:
        """Value of a tensor after the last train() or eval(), the whole global batch.

        The original returned gradients for ``Tensor_t.Train``; here it is the value.
        """
        kind = check_enum("check_out_tensor: tensor_type", tensor_type, Tensor_t)
        return self._graph.session.network.check_out_tensor(tensor_name, kind is Tensor_t.Train)

    def table_stats(self) -> list[dict[str, int]]:
        """Rows, budget, index places and bytes of each table; planned batches whose
        distinct rows travel between devices.

        See ``exchange`` of :class:`hugectr.SparseEmbedding` for the last, ``unique_plans``.
        """
        return [table.stats() for table in self._graph.session.tables()]

    def loss_scale(self) -> float:
        """float16: what the gradients of the next step are multiplied by; 1 without scaling."""
        return self._graph.session.network.loss_scaling_state()["scale"]

    def skipped_steps(self) -> int:
        """Steps that changed nothing because a gradient overflowed float16."""
        return int(self._graph.session.network.loss_scaling_state()["skipped_steps"])

    def memory_report(self) -> list[tuple[str, str, int]]:
        """Who holds how much memory: owner, name, bytes."""
        return self._graph.session.memory_report()

    def get_params_num(self) -> int:
        """Number of trainable values: dense weights and the rows that tables hold."""
        sizes = [embedding.embedding_vec_size for embedding in self._graph.embeddings]
        rows = [stats["rows"] for stats in self.table_stats()]
        sparse = sum(n * d for n, d in zip(rows, sizes, strict=True))
        return int(self._graph.session.network.dense_weights().size) + sparse
