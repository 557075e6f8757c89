# SPDX-License-Identifier: Apache-2.0
"""What the log says of a model that has been compiled."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from hugectr.base import log
from hugectr.model.table_places import table_places
from hugectr.spec.optimizer import Schedule
from hugectr.spec.precision import warn_of_small_scale
from hugectr.spec.sized_rows import rows_of_slots

if TYPE_CHECKING:
    from hugectr.model.graph import Graph


def _is_followed(own: Schedule, by_all: Schedule) -> bool:
    """Whether a table that asks for this gets it; what it says nothing of is as by all."""
    usual = Schedule()
    return own.base_lr == by_all.base_lr and all(
        getattr(own, one.name) in (getattr(by_all, one.name), getattr(usual, one.name))
        for one in fields(Schedule)
        if one.name != "base_lr"
    )


def _warn_of_rates_of_tables(graph: Graph) -> None:
    """Of tables whose own optimizer has a learning rate, which nobody follows."""
    solver = graph.solver
    names = {one.name: "lr" if one.name == "base_lr" else one.name for one in fields(Schedule)}
    by_all = Schedule(**{name: getattr(solver, of_solver) for name, of_solver in names.items()})
    asked = {
        table.sparse_embedding_name: table.optimizer.schedule
        for table in graph.embeddings
        if table.optimizer is not None and table.optimizer.schedule is not None
    }
    rates = {name: own for name, own in asked.items() if not _is_followed(own, by_all)}
    if rates:
        found = ", ".join(f"{name!r} ({own.base_lr:g})" for name, own in rates.items())
        log.warning(
            f"learning_rate, or its schedule, of the optimizers of tables {found} has no effect: "
            f"one schedule drives the dense network and all tables, that of the solver or of the "
            f"config's optimizer (learning rate {by_all.base_lr:g}). Leave it out of tables; those "
            "of hugectr.torch may have rates of their own"
        )


def log_compiled(graph: Graph, device: str) -> None:
    """Its seed, devices, readers and budgets, and what it asks for that has no effect.

    Parameters
    ----------
    graph : Graph
    device : {"cpu", "cuda"}
    """
    solver = graph.solver
    log.info(f"Global seed is {graph.session.seed()}")
    for i in solver.vvgpu[0]:
        log.info(f"Device {i}: {'CPU (virtual device)' if device == 'cpu' else 'CUDA'}")
    log.info(f"num of DataReader workers: {graph.reader_params.num_workers}")
    places = table_places(graph, graph.session)
    for embedding, spec in zip(graph.embeddings, graph.to_spec()["embeddings"], strict=True):
        name = embedding.sparse_embedding_name
        if (kind := embedding.embedding_type.name) != spec["type"]:
            log.info(f"Embedding {name}: {kind} gives the result of {spec['type']}")
        of_plan = spec["max_vocabulary_size_per_gpu"]  # where a plan places it
        own = 0 if graph.etc.is_used else embedding.rows_per_gpu
        sized = rows_of_slots(embedding, spec["placement"], solver.num_devices)
        rows = sized or (own and of_plan) or own or "unbounded"
        log.info(f"max_vocabulary_size_per_gpu_={rows} ({name})")
        if name in places:
            log.info(f"Embedding {name}: placed {places[name]}")
    _warn_of_rates_of_tables(graph)
    warn_of_small_scale(solver.loss_scale)
    if device == "cpu" and solver.use_mixed_precision:
        log.warning(
            f"use_mixed_precision: on the CPU {solver.mixed_precision_type} is computed "
            "through float32 copies: correct, but slower than float32"
        )
    if device == "cpu" and solver.enable_tf32_compute:
        log.info("enable_tf32_compute has no effect on the CPU: the training runs in float32")
