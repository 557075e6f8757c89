# SPDX-License-Identifier: Apache-2.0
"""Embedding tables as users write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hugectr.base import log
from hugectr.base.arguments import check_enum, check_int, check_ints, check_str
from hugectr.base.errors import rejected
from hugectr.base.html_table import html_table
from hugectr.base.keywords import named_keywords
from hugectr.spec.enums import CommunicationType, Embedding_t, HybridEmbeddingType
from hugectr.spec.optimizer import OptParamsPy

if TYPE_CHECKING:
    from hugectr._core import EmbeddingSpec

MAX_VEC_SIZE = 1024
COMBINERS = ("sum", "mean", "concat")
EXCHANGES = ("auto", "pooled", "unique")


@dataclass(frozen=True)
class HybridEmbeddingParam:
    """Tuning of the hybrid embedding; accepted, since scripts pass it with every type."""

    max_num_frequent_categories: int = 1
    max_num_infrequent_samples: int = -1
    p_dup_max: float = 0.01
    max_all_reduce_bandwidth: float = 1.3e11
    max_all_to_all_bandwidth: float = 1.9e11
    efficiency_bandwidth_ratio: float = 1.0
    use_train_precompute_indices: bool = False
    use_eval_precompute_indices: bool = False
    communication_type: CommunicationType = CommunicationType.NVLink_SingleNode
    hybrid_embedding_type: HybridEmbeddingType = HybridEmbeddingType.Distributed


def check_combiner(name: str, value: Any) -> str:
    """``"sum"``, ``"mean"`` or ``"concat"``; 0 and 1 in older scripts for the first two."""
    if value in (0, 1) and not isinstance(value, bool):
        return COMBINERS[int(value)]
    if value not in COMBINERS:
        raise rejected(name, value, "'sum' or 'mean' (0 and 1 for the same), or 'concat'")
    return str(value)


def check_embedding_type(name: str, value: Any) -> Embedding_t:
    """An embedding type this version has."""
    kind = check_enum(name, value, Embedding_t)
    if kind is Embedding_t.HybridSparseEmbedding:
        raise rejected(
            name,
            kind,
            "DistributedSlotSparseEmbeddingHash, LocalizedSlotSparseEmbeddingHash or "
            "LocalizedSlotSparseEmbeddingOneHot; use LocalizedSlotSparseEmbeddingHash, "
            "it trains the same model",
        )
    return kind


@named_keywords("SparseEmbedding")
class SparseEmbedding:
    """A table of vectors: looks keys up and combines the vectors of each slot.

    Parameters
    ----------
    embedding_type : Embedding_t
        How the table is split: ``DistributedSlotSparseEmbeddingHash`` by key,
        ``LocalizedSlotSparseEmbeddingHash`` by slot. ``LocalizedSlotSparseEmbeddingOneHot`` runs as
        the latter, with the same result.
    workspace_size_per_gpu_in_mb : int
        Budget of a device for the vectors, in MiB; the table starts small and grows up to it.
        0: no bound.
    embedding_vec_size : int
        Length d of a vector, 1 to 1024.
    combiner : {"sum", "mean", "concat"}
        What becomes of the vectors of a slot. ``"concat"`` keeps them apart, in the order of their
        keys: a slot has as many positions as its ``nnz_per_slot``, zeros where it has fewer keys,
        and all slots share rows (Localized types take one slot). Layers read how many keys there
        are as ``<bottom_name>_lengths``, (batch, slots) float32. v3.0 form: 0 (sum) or 1 (mean).
    sparse_embedding_name : str
        Name of the output, (batch, slots, d); of ``"concat"`` (batch, sum of nnz_per_slot, d), the
        positions of the first slot first.
    bottom_name : str
        Name of a sparse input.
    slot_size_array : list of int
        Localized: keys of each slot; sets the budget and the range of new vectors.
    optimizer : OptParamsPy, optional
        The model's, when not given.
    hybrid_embedding_param : HybridEmbeddingParam, optional
        Accepted and not used.
    max_vocabulary_size_per_gpu : int, optional
        v3.0 form: budget of a device in rows instead of MiB.
    exchange : {"auto", "pooled", "unique"}
        How vectors travel between devices in training: ``"pooled"``, the sums of whole slots, or
        ``"unique"``, each distinct row of a device's samples once (pooled where it is used; its
        gradient comes back as one sum). ``"auto"`` counts the bytes of each batch and takes
        ``"unique"`` where it moves at most three quarters. Rows that do not fit the buffers of
        pooled vectors (more of them than buckets) travel pooled. Results agree up to the rounding
        of what travels, which has the type of the network's inputs.

    Raises
    ------
    InvalidArgument
        A ValueError that names the argument, what was found and what is allowed.
    """

    def __init__(
        self,
        embedding_type: Embedding_t,
        workspace_size_per_gpu_in_mb: int = 0,
        embedding_vec_size: int = 0,
        combiner: str | int = "sum",
        sparse_embedding_name: str = "",
        bottom_name: str = "",
        slot_size_array: Sequence[int] = (),
        optimizer: OptParamsPy | None = None,
        hybrid_embedding_param: HybridEmbeddingParam | None = None,
        *,
        max_vocabulary_size_per_gpu: int = 0,
        exchange: str = "auto",
    ) -> None:
        where = f"SparseEmbedding {sparse_embedding_name!r}: "
        self.embedding_type = check_embedding_type(where + "embedding_type", embedding_type)
        self.workspace_size_per_gpu_in_mb = check_int(
            where + "workspace_size_per_gpu_in_mb", workspace_size_per_gpu_in_mb, 0
        )
        self.max_vocabulary_size_per_gpu = check_int(
            where + "max_vocabulary_size_per_gpu", max_vocabulary_size_per_gpu, 0
        )
        if exchange not in EXCHANGES:
            raise rejected(where + "exchange", exchange, "'auto', 'pooled' or 'unique'")
        self.exchange = exchange
        self.embedding_vec_size = check_int(
            where + "embedding_vec_size", embedding_vec_size, 1, MAX_VEC_SIZE
        )
        self.combiner = check_combiner(where + "combiner", combiner)
        self.sparse_embedding_name = check_str(
            where + "sparse_embedding_name", sparse_embedding_name, empty=False
        )
        self.bottom_name = check_str(where + "bottom_name", bottom_name, empty=False)
        self.slot_size_array = check_ints(where + "slot_size_array", slot_size_array, 0)
        if optimizer is not None and not isinstance(optimizer, OptParamsPy):
            raise rejected(where + "optimizer", optimizer, "what hugectr.CreateOptimizer returns")
        self.optimizer = optimizer
        if hybrid_embedding_param is not None and not isinstance(
            hybrid_embedding_param, HybridEmbeddingParam
        ):
            raise rejected(
                where + "hybrid_embedding_param",
                hybrid_embedding_param,
                "a hugectr.HybridEmbeddingParam",
            )

    @property
    def is_localized(self) -> bool:
        """Whether the table is split by slot."""
        return self.embedding_type is not Embedding_t.DistributedSlotSparseEmbeddingHash

    @property
    def rows_per_gpu(self) -> int:
        """Rows a device may hold; 0: no bound."""
        if self.workspace_size_per_gpu_in_mb:
            return self.workspace_size_per_gpu_in_mb * 1024 * 1024 // (4 * self.embedding_vec_size)
        return self.max_vocabulary_size_per_gpu

    def _repr_html_(self) -> str:
        rows: list[list[object]] = [
            ["keys of", self.bottom_name],
            ["split", "by slot" if self.is_localized else "by key"],
            ["floats a row", self.embedding_vec_size],
            ["combiner", self.combiner],
            ["rows a device", f"{self.rows_per_gpu:,}" if self.rows_per_gpu else "unbounded"],
        ]
        return html_table(f"Embedding table {self.sparse_embedding_name}", [], rows)

    def to_spec(self) -> EmbeddingSpec:
        """The table as the core reads it."""
        kind = self.embedding_type
        if kind is Embedding_t.LocalizedSlotSparseEmbeddingOneHot:
            log.info(
                f"Embedding {self.sparse_embedding_name}: {kind.name} runs as "
                "LocalizedSlotSparseEmbeddingHash, which gives the same result"
            )
            kind = Embedding_t.LocalizedSlotSparseEmbeddingHash
        return {
            "type": kind.name,
            "workspace_size_per_gpu_in_mb": self.workspace_size_per_gpu_in_mb,
            "max_vocabulary_size_per_gpu": self.max_vocabulary_size_per_gpu,
            "embedding_vec_size": self.embedding_vec_size,
            "combiner": self.combiner,
            "exchange": self.exchange,
            "name": self.sparse_embedding_name,
            "bottom": self.bottom_name,
            # Distributed tables have no slots to size; the array is only the readers' there.
            "slot_size_array": self.slot_size_array if self.is_localized else [],
            "opt_params": None if self.optimizer is None else self.optimizer.to_spec(),
        }
