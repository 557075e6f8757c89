# SPDX-License-Identifier: Apache-2.0
"""Embedding tables as users write them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hugectr.base.arguments import (
    check_enum,
    check_float,
    check_int,
    check_ints,
    check_names,
    check_str,
)
from hugectr.base.errors import rejected
from hugectr.base.html_table import html_table
from hugectr.base.keywords import named_keywords
from hugectr.plan.table_load import EXCHANGES as EXCHANGES  # config reads it here
from hugectr.spec.enums import Embedding_t, Regularizer_t
from hugectr.spec.hybrid import HybridEmbeddingParam
from hugectr.spec.initializers import InitialVectors, Uniform, check_initializer
from hugectr.spec.memory import Memory, check_memory
from hugectr.spec.optimizer import OptParamsPy, check_field
from hugectr.spec.placement import Placement, check_placement
from hugectr.spec.row_life import EVICT_EVERY, RowLife
from hugectr.spec.sized_rows import rows_of_slots
from hugectr.spec.wire import check_wire

if TYPE_CHECKING:
    from hugectr._core import EmbeddingSpec

MAX_VEC_SIZE = 1024
COMBINERS = ("sum", "mean", "concat")
#: What vectors are kept in -> bytes of a number.
VECTOR_TYPES = {"float32": 4, "bfloat16": 2}


#: Types that v3 splits by slot; the others are split by key.
LOCALIZED = (
    Embedding_t.LocalizedSlotSparseEmbeddingHash,
    Embedding_t.LocalizedSlotSparseEmbeddingOneHot,
)
#: Types that v3 has for one key a slot, and how they run here: with the same result.
ONE_HOT = {
    Embedding_t.LocalizedSlotSparseEmbeddingOneHot: Embedding_t.LocalizedSlotSparseEmbeddingHash,
    Embedding_t.HybridSparseEmbedding: Embedding_t.DistributedSlotSparseEmbeddingHash,
}


def check_combiner(name: str, value: Any) -> str:
    """``"sum"``, ``"mean"`` or ``"concat"``; 0 and 1 in older scripts for the first two."""
    if value in (0, 1) and not isinstance(value, bool):
        return COMBINERS[int(value)]
    if value not in COMBINERS:
        raise rejected(name, value, "'sum' or 'mean' (0 and 1 for the same), or 'concat'")
    return str(value)


def check_vector_type(name: str, value: Any) -> str:
    """``"float32"`` or ``"bfloat16"``."""
    if value not in VECTOR_TYPES:
        raise rejected(name, value, "'float32' or 'bfloat16'")
    return str(value)


@named_keywords("SparseEmbedding")
class SparseEmbedding:
    """A table of vectors: looks keys up and combines the vectors of each slot.

    Parameters
    ----------
    embedding_type : Embedding_t
        How the table is split: ``DistributedSlotSparseEmbeddingHash`` by key,
        ``LocalizedSlotSparseEmbeddingHash`` by slot. ``LocalizedSlotSparseEmbeddingOneHot`` is the
        latter for slots whose keys are below ``slot_size_array`` (or counted from the slots
        before), found without a hash table. ``HybridSparseEmbedding`` is placed ``"hybrid"``: rows
        of frequent keys are on every device.
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
    bottom_name : str or list of str
        Sparse inputs. Of several the table has all slots, in their order; a key in two is one row.
    slot_size_array : list of int
        Localized: keys of each slot; sets the range of new vectors, and the budget, in the place
        of a workspace. Hybrid: their sum sets the range, for all slots.
    optimizer : OptParamsPy, optional
        The model's, when not given.
    hybrid_embedding_param : HybridEmbeddingParam, optional
        Which keys a hybrid placement calls frequent; it changes no result.
    max_vocabulary_size_per_gpu : int, optional
        v3.0 form: budget of a device in rows instead of MiB.
    exchange : {"auto", "pooled", "unique"}
        How vectors travel between devices in training: ``"pooled"``, the sums of whole slots, or
        ``"unique"``, each distinct row of a device's samples once (pooled where it is used; its
        gradient comes back as one sum). ``"auto"`` counts the bytes of each batch and takes
        ``"unique"`` where it moves at most three quarters; a ``plan`` may say ``"pooled"`` instead.
        Evaluation sends sums; so does a table
        placed by column, and says so once. Gradients of replicated rows travel by distinct row in
        any case. Results agree up to the rounding of what travels.
    wire : {"fp32", "bf16", "fp16", "fp8"}, optional
        What vectors travel as between devices, and their gradients on the way back. None: as the
        solver says, else as the layers read them. In training numbers are rounded up or down by
        chance, so that their mean is kept, and the same ones again with the same ``seed``;
        evaluation rounds to nearest. Vectors of ``"fp16"`` and ``"fp8"`` (e4m3) have a scale each.
        ``"fp32"`` is for networks in float32. Sums of replicated rows do not travel so.
    regularizer : Regularizer_t, optional
        A penalty on the distinct rows of each batch, as if the loss had ``regularizer_lambda``
        times their sum of |w| (``L1``) or of w^2 / 2 (``L2``) more: each row once, however many
        devices or samples use it, and not divided by the batch. The update takes it in (the
        optimizer's ``l1`` or ``l2``); the reported loss does not show it.
    regularizer_lambda : float
        Its weight.
    placement : Placement or str, optional
        Which devices hold the rows; None: as ``embedding_type`` splits the table
        (``HybridSparseEmbedding`` with rows that come and go: by key). It changes no result but for
        rounding, and a checkpoint of one is loaded by all.
    initializer : Uniform or Sinusoidal, optional
        What new rows hold. None: uniform, in +-sqrt(1 / size) where ``slot_size_array`` says the
        size, else in +-0.05.
    memory : Memory, optional
        Where rows lie when a device does not hold them all. None: as the solver says.
    vector_type : {"float32", "bfloat16"}
        What vectors are kept in, in every tier and in native checkpoints. ``"bfloat16"`` halves
        their memory and what moves; sums and updates are computed in float32, and an update rounds
        each number to one of the two bfloat16 around it, at random by how near they are (by seed,
        row, step and column alone, so that runs repeat to the bit). First values, and rows that are
        loaded, are rounded to nearest. Optimizer states stay float32. Vectors that are read, dumped
        and exported are float32 of the same values.
    max_rows : int, optional
        Rows that the table may have in the whole job, whatever its devices. 0: no bound. With
        ``evict="none"`` a batch that needs more is refused before it trains.
    evict : {"none", "lru", "lfu", "ttl"}
        Which rows go behind a step whose number is a multiple of ``evict_every``. ``"lru"``: where
        there are more than ``max_rows``, those not used for longest, until nine tenths of
        ``max_rows`` are left. ``"lfu"``: then those that the fewest steps used. ``"ttl"``: all that
        no step used for ``ttl`` steps; of the rest the same as ``"lru"``, if ``max_rows`` is given.
        Between two such steps there may be more than ``max_rows``. The same rows go on any number
        of devices and processes; a key that comes back begins anew.
    ttl : int, optional
        Steps; with ``ttl_column`` seconds.
    decay : float, optional
        What is left of a use after ``evict_every`` steps, with ``"lfu"``: above 0, at most 1; 0.5.
    evict_every : int, optional
        Steps.
    admit_after : int, optional
        Steps that must use a key until its row is trained, 1 to 2^20. Before, the key reads what a
        new row holds; its row goes when no step used it for ``evict_every`` steps.
    ttl_column : str, optional
        With ``"ttl"`` by time: a sparse input with the second (since 1970) of each sample; see
        :class:`hugectr.spec.row_life.RowLife`.

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
        bottom_name: str | Sequence[str] = "",
        slot_size_array: Sequence[int] = (),
        optimizer: OptParamsPy | None = None,
        hybrid_embedding_param: HybridEmbeddingParam | None = None,
        *,
        max_vocabulary_size_per_gpu: int = 0,
        exchange: str = "auto",
        wire: str | None = None,
        regularizer: Regularizer_t | None = None,
        regularizer_lambda: float = 0.0,
        initializer: InitialVectors | None = None,
        placement: Placement | str | None = None,
        memory: Memory | None = None,
        vector_type: str = "float32",
        max_rows: int = 0,
        evict: str = "none",
        ttl: int = 0,
        decay: float | None = None,
        evict_every: int = EVICT_EVERY,
        admit_after: int = 1,
        ttl_column: str = "",
    ) -> None:
        where = f"SparseEmbedding {sparse_embedding_name!r}: "
        self.embedding_type = check_enum(where + "embedding_type", embedding_type, Embedding_t)
        self.workspace_size_per_gpu_in_mb = check_int(
            where + "workspace_size_per_gpu_in_mb", workspace_size_per_gpu_in_mb, 0, 1 << 40
        )
        self.max_vocabulary_size_per_gpu = check_int(
            where + "max_vocabulary_size_per_gpu", max_vocabulary_size_per_gpu, 0
        )
        if exchange not in EXCHANGES:
            raise rejected(where + "exchange", exchange, "'auto', 'pooled' or 'unique'")
        self.exchange = exchange
        self.wire = check_wire(where + "wire", wire)
        self.embedding_vec_size = check_int(
            where + "embedding_vec_size", embedding_vec_size, 1, MAX_VEC_SIZE
        )
        self.combiner = check_combiner(where + "combiner", combiner)
        name = check_str(where + "sparse_embedding_name", sparse_embedding_name, empty=False)
        self.sparse_embedding_name, self.top_name = name, name
        self.bottom_names = check_names(where + "bottom_name", bottom_name)
        if not self.bottom_names:
            raise rejected(where + "bottom_name", bottom_name, "at least one sparse input")
        self.slot_size_array = check_ints(where + "slot_size_array", slot_size_array, 0)
        if optimizer is not None and not isinstance(optimizer, OptParamsPy):
            raise rejected(where + "optimizer", optimizer, "what hugectr.CreateOptimizer returns")
        if optimizer is not None and optimizer.clip_norm:
            allowed = "0: the clip_norm of the model's optimizer is that of all gradients"
            raise rejected(where + "optimizer.clip_norm", optimizer.clip_norm, allowed)
        self.optimizer = optimizer
        self.regularizer = regularizer
        self.regularizer_lambda = check_float(where + "regularizer_lambda", regularizer_lambda, 0.0)
        if regularizer is not None:
            check_enum(where + "regularizer", regularizer, Regularizer_t)
        elif self.regularizer_lambda:
            raise rejected(
                where + "regularizer", None, "hugectr.Regularizer_t.L1 or L2 with a lambda"
            )
        hybrid, allowed = hybrid_embedding_param, "a hugectr.HybridEmbeddingParam"
        if hybrid is not None and not isinstance(hybrid, HybridEmbeddingParam):
            raise rejected(where + "hybrid_embedding_param", hybrid, allowed)
        self.hybrid_embedding_param = hybrid or HybridEmbeddingParam()
        self.initializer = check_initializer(where + "initializer", initializer)
        self.placement = check_placement(where + "placement", placement)
        self.memory = check_memory(where + "memory", memory)
        self.vector_type = check_vector_type(where + "vector_type", vector_type)
        life = RowLife(max_rows, evict, ttl, decay, evict_every, admit_after, ttl_column)
        self.life = life.check(where)
        if self.is_one_hot and not self.slot_size_array:
            allowed = f"the number of keys of each slot, which {self.embedding_type.name} needs"
            raise rejected(where + "slot_size_array", [], allowed)

    @property
    def bottom_name(self) -> str | list[str]:
        """What the table reads: a name, or where they are several a list of them."""
        return self.bottom_names[0] if len(self.bottom_names) == 1 else list(self.bottom_names)

    @property
    def is_localized(self) -> bool:
        """Whether the table is split by slot."""
        return self.embedding_type in LOCALIZED

    @property
    def placement_of_type(self) -> Placement | None:
        """``placement``, or what the type means by itself; None: the core's by key or by slot."""
        if self.placement is None and self.is_hybrid and not self.rows_go:
            return Placement("hybrid")
        return self.placement

    @property
    def rows_go(self) -> bool:
        """Whether its rows come and go, which a table with rows on several devices refuses."""
        return self.life != RowLife()

    @property
    def _split(self) -> str:
        own = self.placement_of_type
        return str(own) if own is not None else "by slot" if self.is_localized else "by key"

    @property
    def is_hybrid(self) -> bool:
        """Whether it is a HybridSparseEmbedding."""
        return self.embedding_type is Embedding_t.HybridSparseEmbedding

    @property
    def is_direct(self) -> bool:
        """Whether slots have the keys of their sizes and no others, so that none is hashed."""
        return self.embedding_type is Embedding_t.LocalizedSlotSparseEmbeddingOneHot

    @property
    def is_one_hot(self) -> bool:
        """Whether it is of a type that v3 has for one key a slot."""
        return self.embedding_type in ONE_HOT

    @property
    def initial(self) -> InitialVectors | None:
        """What new rows hold; None: as the core does it, by slots or in +-0.05."""
        if self.initializer is None and self.is_hybrid:
            return Uniform(math.sqrt(1.0 / max(1, sum(self.slot_size_array))))
        return self.initializer

    def check_keys(self, nnz_per_slot: Sequence[int]) -> None:
        """Refuse sizes of a type of one key a slot that are not those of its slots.

        Scripts for v3 give such tables inputs whose slots may hold several keys, and data that has
        one; where there are several, the vectors are combined as in the hash tables.

        Parameters
        ----------
        nnz_per_slot : list of int
            Most keys of each slot of all its inputs.
        """
        where = f"SparseEmbedding {self.sparse_embedding_name!r}: "
        if self.is_one_hot and len(self.slot_size_array) != len(nnz_per_slot):
            raise rejected(
                where + "slot_size_array",
                self.slot_size_array,
                f"a size for each of the {len(nnz_per_slot)} slots of {self.bottom_name!r}",
            )

    @property
    def rows_per_gpu(self) -> int:
        """Rows that the budget of a device allows; 0: it has none (``rows_of_slots`` may)."""
        if self.workspace_size_per_gpu_in_mb:
            bytes_a_vector = VECTOR_TYPES[self.vector_type] * self.embedding_vec_size
            return self.workspace_size_per_gpu_in_mb * 1024 * 1024 // bytes_a_vector
        return self.max_vocabulary_size_per_gpu

    def own_optimizer(self, default: OptParamsPy) -> OptParamsPy:
        """What the rows are updated by, the regularizer among it; ``clip_norm`` is the model's.

        Parameters
        ----------
        default : OptParamsPy
            The model's.
        """
        optimizer = self.optimizer or default
        if optimizer.clip_norm:
            optimizer = optimizer.with_fields(clip_norm=0.0)
        if self.regularizer is None:
            return optimizer
        field = self.regularizer.name.lower()
        check_field(
            f"SparseEmbedding {self.sparse_embedding_name!r}: regularizer_lambda",
            self.regularizer_lambda,
            field,
        )
        return optimizer.with_fields(**{field: self.regularizer_lambda})

    def _repr_html_(self) -> str:
        most = rows_of_slots(self) or self.rows_per_gpu
        rows: list[list[object]] = [
            ["keys of", ", ".join(self.bottom_names)],
            ["split", self._split],
            ["numbers a row", f"{self.embedding_vec_size} {self.vector_type}"],
            ["combiner", self.combiner],
            ["rows a device", f"{most:,}" if most else "unbounded"],
        ]
        return html_table(f"Embedding table {self.sparse_embedding_name}", [], rows)

    def to_spec(self, optimizer: OptParamsPy | None = None) -> EmbeddingSpec:
        """The table as the core reads it.

        Parameters
        ----------
        optimizer : OptParamsPy, optional
            The model's; None: nothing trains.
        """
        spec: EmbeddingSpec = {
            "type": ONE_HOT.get(self.embedding_type, self.embedding_type).name,
            "workspace_size_per_gpu_in_mb": self.workspace_size_per_gpu_in_mb,
            "max_vocabulary_size_per_gpu": self.max_vocabulary_size_per_gpu,
            "embedding_vec_size": self.embedding_vec_size,
            "combiner": self.combiner,
            "exchange": self.exchange,
            "wire": self.wire or "own",
            "placement": self.placement.kind if self.placement else None,
            "placement_device": (self.placement.device or 0) if self.placement else 0,
            "frequent": (self.placement.frequent or []) if self.placement else [],
            "name": self.sparse_embedding_name,
            "bottoms": list(self.bottom_names),
            # Distributed tables have no slots to size; the array is only the readers' there.
            "slot_size_array": self.slot_size_array if self.is_localized else [],
            "direct": self.is_direct,
            "opt_params": self.own_optimizer(optimizer).to_spec() if optimizer else None,
        }
        if self.top_name != self.sparse_embedding_name:
            spec["top"] = self.top_name
        if self.vector_type != "float32":
            spec["vector_type"] = self.vector_type
        spec |= self.initial.to_spec() if self.initial is not None else {}
        if self.rows_go:
            spec["life"] = asdict(self.life)
        return spec
