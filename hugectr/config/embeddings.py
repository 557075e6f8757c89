# SPDX-License-Identifier: Apache-2.0
"""A table of the ``layers`` array of a JSON config, read into the class that scripts use."""

from dataclasses import fields
from enum import Enum
from typing import Any

from hugectr.base.arguments import check_names
from hugectr.base.errors import rejected
from hugectr.config.json_reader import JsonObject
from hugectr.config.optimizer import parse_optimizer
from hugectr.spec.embedding import (
    EXCHANGES,
    LOCALIZED,
    MAX_VEC_SIZE,
    VECTOR_TYPES,
    SparseEmbedding,
    check_combiner,
)
from hugectr.spec.enums import CommunicationType, Embedding_t, HybridEmbeddingType
from hugectr.spec.hybrid import HybridEmbeddingParam
from hugectr.spec.initializers import InitialVectors, Sinusoidal, Uniform
from hugectr.spec.memory import Memory, check_disk, check_size
from hugectr.spec.placement import PLACEMENTS, Placement, check_placement
from hugectr.spec.row_life import RowLife
from hugectr.spec.tensor_names import TensorNames
from hugectr.spec.wire import WIRES


def parse_embedding(
    layer: JsonObject, kind: Embedding_t, names: TensorNames, *, shares_memory: bool = False
) -> SparseEmbedding:
    """Read a table of the ``layers`` array.

    Parameters
    ----------
    layer : JsonObject
    kind : Embedding_t
        What its ``type`` says.
    names : TensorNames
        Of the graph so far; that of the table is added.
    shares_memory : bool
        Whether the solver has a ``memory``, which bounds tables that give no bound.
    """
    bottoms = check_names(layer.where("bottom"), layer.raw("bottom"))
    top = layer.text("top", empty=False)
    table_name = layer.text("table_name", top, empty=False)
    for name in bottoms:
        names.read_sparse(layer.where("bottom"), name)
    names.define(layer.where("top"), top)
    hparam = layer.object("sparse_embedding_hparam")
    vec_size = hparam.integer("embedding_vec_size", minimum=1, maximum=MAX_VEC_SIZE)
    slot_sizes = hparam.integers("slot_size_array", [], minimum=0)
    localized = kind in LOCALIZED
    rows = hparam.integer("max_vocabulary_size_per_gpu", 0, minimum=0)
    workspace = hparam.integer("workspace_size_per_gpu_in_mb", 0, minimum=0)
    budgets = ("workspace_size_per_gpu_in_mb", "max_vocabulary_size_per_gpu")
    lives = any(one.name in hparam for one in fields(RowLife))  # the original has no such tables
    bounded = shares_memory or lives or "memory" in hparam or (localized and bool(slot_sizes))
    if not any(key in hparam for key in budgets) and not bounded:
        allowed = (
            "an integer (MiB; 0: as many rows as memory takes), or max_vocabulary_size_per_gpu "
            "(rows), a memory or a life of rows (max_rows, ttl) instead"
        )
        raise rejected(hparam.where(budgets[0]), hparam.raw(budgets[0]), allowed)
    combiner = hparam.raw("combiner", "sum")
    check_combiner(hparam.where("combiner"), combiner)
    exchange = hparam.choice("exchange", EXCHANGES, "auto")
    wire = hparam.choice("wire", WIRES) if "wire" in hparam else None
    hybrid, initializer = _hybrid(hparam), _initializer(hparam)
    placement = _placement(hparam)
    memory = parse_memory(hparam)
    vector_type = hparam.choice("vector_type", tuple(VECTOR_TYPES), "float32")
    life = {one.name: hparam.raw(one.name) for one in fields(RowLife) if one.name in hparam}
    hparam.ignore("max_vocabulary_size_global")
    hparam.finish()
    optimizer = parse_optimizer(layer.object("optimizer")) if "optimizer" in layer else None
    layer.ignore("name", "plan_file")
    layer.finish(hparam)
    table = SparseEmbedding(
        kind,
        workspace,
        vec_size,
        combiner,
        table_name,
        bottoms,
        slot_sizes,
        optimizer,
        hybrid,
        max_vocabulary_size_per_gpu=rows,
        exchange=exchange,
        wire=wire,
        initializer=initializer,
        placement=placement,
        memory=memory,
        vector_type=vector_type,
        **life,
    )
    table.top_name = top
    return table


def parse_memory(parent: JsonObject) -> Memory | None:
    """What ``memory`` of a table or a solver says."""
    if "memory" not in parent:
        return None
    found = parent.object("memory")
    sizes = {
        name: check_size(found.where(name), found.raw(name, None)) for name in ("device", "host")
    }
    disk = check_disk(found.where("disk"), found.raw("disk", None))
    found.finish()
    with found.named():
        return Memory(**sizes, disk=disk)


def _hybrid(hparam: JsonObject) -> HybridEmbeddingParam:
    """Its settings, which stand beside those of every table."""
    enums: dict[str, type[Enum]] = {
        "communication_type": CommunicationType,
        "hybrid_embedding_type": HybridEmbeddingType,
    }
    values: dict[str, Any] = {}
    for one in fields(HybridEmbeddingParam):
        if one.name not in hparam:
            continue
        values[one.name] = hparam.raw(one.name)
        if one.name in enums:
            kinds = enums[one.name]
            values[one.name] = kinds[hparam.choice(one.name, [kind.name for kind in kinds])]
    return HybridEmbeddingParam(**values)


def _placement(hparam: JsonObject) -> Placement | None:
    """A kind, or an object of kind and device."""
    value = hparam.raw("placement", None)
    if not isinstance(value, dict):
        return check_placement(hparam.where("placement"), value)
    found = hparam.object("placement")
    kind = found.choice("kind", PLACEMENTS)
    device = found.integer("device", minimum=0) if "device" in found else None
    frequent = found.integers("frequent", minimum=None) if "frequent" in found else None
    found.finish()
    return Placement(kind, device, frequent)


def _initializer(hparam: JsonObject) -> InitialVectors | None:
    if "initializer" not in hparam:
        return None
    found = hparam.object("initializer")
    kind = found.choice("type", ("Uniform", "Sinusoidal"))
    made = Sinusoidal() if kind == "Sinusoidal" else Uniform(found.number("up_bound", minimum=0.0))
    found.finish()
    return made
