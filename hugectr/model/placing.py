# SPDX-License-Identifier: Apache-2.0
"""A model's tables as a planner sees them, and a plan as what its tables are made of."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hugectr import _core
from hugectr.base import log
from hugectr.data.arrays import MemoryDataset
from hugectr.data.first_keys import FirstKeys, SampleShape, keys_of_dataset, keys_of_source
from hugectr.model.calibration import Keys, frequent_keys
from hugectr.model.may_be_placed import allowed_kinds
from hugectr.model.network_time import network_time
from hugectr.model.planned import Planned, placement_of, say_what_differs
from hugectr.model.table_memory import budgets_of_tables
from hugectr.plan.job import Choice, Job
from hugectr.plan.machine import Machine, machine_named, read_machine
from hugectr.plan.placements import PlacementPlan
from hugectr.plan.plan_file import plan_of_json, read_plan
from hugectr.plan.planning import plan_placements
from hugectr.plan.table_load import FrequentLoad, TableLoad, guessed_rows
from hugectr.plan.tiers import Tiers
from hugectr.processes.agreement import from_root
from hugectr.spec.embedding import VECTOR_TYPES, SparseEmbedding
from hugectr.spec.optimizer import state_widths
from hugectr.spec.solver import Solver

if TYPE_CHECKING:
    from hugectr.model.graph import Graph

#: Samples that keys are counted in.
SAMPLES = 65536
#: Rows of a table that nobody knows the size of, for each that its samples have.
_UNSEEN = 20


def placements_of(graph: Graph, instead: PlacementPlan | None = None) -> dict[str, Planned]:
    """What the solver's ``plan`` says of tables; nothing where it has no plan. Collective.

    Parameters
    ----------
    graph : Graph
    instead : PlacementPlan, optional
        Of the solver's plan.

    Raises
    ------
    InvalidArgument
        When the plan is of other tables, or names a device that there is not.
    """
    wanted = graph.solver.plan if instead is None else instead
    if wanted is None or not graph.embeddings:
        return {}
    if isinstance(wanted, PlacementPlan):
        plan = wanted
    elif wanted == "auto":
        plan = predict_together(graph, None, None)
    else:
        plan = read_plan(wanted)
    devices = graph.solver.num_devices
    plan = plan.for_devices(devices)
    plan.check_tables(graph.table_names, devices)
    own = {
        one.sparse_embedding_name: one.placement
        for one in graph.embeddings
        if one.placement is not None
    }
    placed = {
        table.name: Planned(placement_of(table, own.get(table.name)), table.exchange)
        for table in plan.tables
    }
    if wanted == "auto":
        log.info(f"plan: {plan}")
        mine = {
            name: replace(found, placement=None) if name in own else found
            for name, found in placed.items()
        }
        return {name: found for name, found in mine.items() if found != Planned(None)}
    say_what_differs(plan, placed, graph.embeddings, devices)
    return placed


def frequent_of(graph: Graph, placed: Mapping[str, Planned]) -> dict[str, list[int]]:
    """Frequent keys of hybrid tables that were not given any. Collective.

    Parameters
    ----------
    graph : Graph
    placed : mapping of str to Planned
    """
    wanted = {}
    for one in graph.embeddings:
        planned = placed.get(one.sparse_embedding_name)
        placement = planned.placement if planned is not None else None
        placement = placement or one.placement_of_type
        if placement is not None and placement.kind == "hybrid" and placement.frequent is None:
            wanted[one.sparse_embedding_name] = one
    if not wanted or graph.solver.num_devices == 1:
        return {}

    def count() -> dict[str, list[int]]:
        limit = graph.solver.num_iterations_statistics * graph.solver.batchsize
        data = _samples(graph, limit, "so that none is frequent")
        if data is None or not data.samples:
            return {name: [] for name in wanted}
        return {
            name: frequent_keys(
                np.concatenate([data.sparse[bottom][0] for bottom in table.bottom_names]),
                table.hybrid_embedding_param,
                graph.solver,
                data.samples,
                table.rows_per_gpu,
            ).tolist()
            for name, table in wanted.items()
        }

    found = from_root(graph.processes, count)
    for name, keys in found.items():
        log.info(f"Embedding {name}: {len(keys)} frequent keys have rows on every device")
    return found


def rows_of_plan(table: SparseEmbedding, kind: str, solver: Solver, slots: int) -> int:
    """Rows that a device may have of a table that is placed by a plan, which deals the budget of
    all devices together; 0: no bound.

    Parameters
    ----------
    table : SparseEmbedding
    kind : str
        Its placement. Rare rows of a hybrid are by key, and its frequent ones no more than these.
    solver : Solver
    slots : int
        Of a sample: by slot, the device that has most of them has their part of the rows.
    """
    if kind in ("by_key", "hybrid"):
        return table.rows_per_gpu
    devices = solver.num_devices
    most = -(-slots // devices) if kind == "by_slot" else slots
    return -(-table.rows_per_gpu * devices * most // slots)


def machine_of(solver: Solver, machine: str | None = None) -> Machine:
    """Whose rates predictions go by.

    Parameters
    ----------
    solver : Solver
    machine : str, optional
        As of ``read_machine``. None or "here": the virtual devices of a CPU; else what was measured
        on the device (``hugectr model plan --measure``), or is known by its name; else the
        package's default, called assumed.
    """
    if machine not in (None, "here"):
        return read_machine(machine)
    on_cpu = solver.resolved_device() == "cpu"
    if on_cpu:
        return machine_named("cpu")
    there = _core.device_count("cuda") > 0
    return machine_named(_core.device_name("cuda", solver.vvgpu[0][0]) if there else "")


def predict(
    graph: Graph, machine: str | None = None, rows: Mapping[str, int] | None = None
) -> PlacementPlan:
    """The plan that is predicted to be the fastest; placements that tables have stay.

    Parameters
    ----------
    graph : Graph
    machine : str, optional
        As of ``machine_of``.
    rows : mapping of str to int, optional
        Rows to expect of a table. Else those of slot_size_array, or all that its budget allows, or
        twenty times the distinct ones of the samples that were looked at, and as many at least as a
        batch needs.
    """
    solver = graph.solver
    rates, near = machine_of(solver, machine), len(solver.vvgpu[0])
    dense = network_time(graph, rates)
    job = Job(solver.num_devices, solver.batchsize, rates, solver.compute_dtype, near, dense)
    data = _samples(
        graph, max(SAMPLES, solver.batchsize), "so that each is taken for a row of its own"
    )
    tables = [
        replace(_load(graph, one, data, (rows or {}).get(one.sparse_embedding_name)), tiers=tiers)
        for one, tiers in zip(graph.embeddings, _tiers(graph), strict=True)
    ]
    dealt = graph.table_devices()
    fixed = {
        one.sparse_embedding_name: Choice(
            one.placement.kind, dealt.get(one.sparse_embedding_name, one.placement.device or 0)
        )
        for one in graph.embeddings
        if one.placement is not None
    }
    plan = plan_placements(job, tables, fixed)
    for lacking in plan.lacking:
        log.warning(f"plan: {lacking}")
    return replace(plan, notes=(*plan.notes, *guessed_rows(tables)))


def predict_together(
    graph: Graph, machine: str | None, rows: Mapping[str, int] | None
) -> PlacementPlan:
    """As ``predict``; for all processes where they go by such a plan: then collective."""
    if graph.solver.plan != "auto":
        return predict(graph, machine, rows)
    # Of what one process reads, so that all go by one plan.
    found = from_root(graph.processes, lambda: predict(graph, machine, rows).to_json())
    return plan_of_json(found, "plan")


def _samples(graph: Graph, limit: int, otherwise: str) -> FirstKeys | None:
    """Keys of the first samples of the training data, as the reader will have them; None where
    they can not be looked at: ``otherwise`` says what follows."""
    assert graph.input is not None, "tables come after it"
    reader, inputs = graph.reader_params, graph.input
    if isinstance(reader.source, MemoryDataset):
        return keys_of_dataset(reader.source, limit)
    shape = SampleShape(
        inputs.label_dim + inputs.dense_dim,
        [(param.top_name, param.nnz_per_slot) for param in inputs.sparse],
        graph.solver.i64_input_key,
    )
    try:
        with log.only_warnings():
            spec = reader.to_spec(inputs)
        return keys_of_source(spec, shape, limit)
    except (RuntimeError, ValueError, OSError) as error:
        log.warning(f"plan: keys of {reader.source} were not counted, {otherwise}: {error}")
        return None


def _load(
    graph: Graph, table: SparseEmbedding, data: FirstKeys | None, rows: int | None
) -> TableLoad:
    assert graph.input is not None, "tables come after it"
    params = [graph.input.sparse_param(name) for name in table.bottom_names]
    hotness = [nnz for param in params if param is not None for nnz in param.nnz_per_slot]
    solver = graph.solver
    keys, seen = float(sum(hotness)), 0
    distinct = of_device = 1.0
    frequent = None
    if data is not None and data.samples:
        counted = _Keys(table, data)
        seen, count = counted.distinct(data.samples)
        keys = count / data.samples
        distinct = of_device = counted.share(solver.batchsize)
        if solver.num_devices > 1:  # one device has all samples, and no frequent keys of its own
            of_device = counted.share(max(1, solver.batchsize // solver.num_devices))
            frequent = counted.frequent(table, solver)
    sized = sum(table.slot_size_array) if table.is_localized else 0
    optimizer = table.own_optimizer(graph.opt_params).optimizer_type
    known = rows or sized or _most_rows(table, len(hotness), solver)
    least = math.ceil(solver.batchsize * keys * distinct)  # rows that a batch has
    widths = state_widths(optimizer, table.embedding_vec_size)
    return TableLoad(
        table.sparse_embedding_name,
        known or max(1, _UNSEEN * seen, least),
        table.embedding_vec_size,
        sum(hotness) if table.combiner == "concat" else len(hotness),
        max(keys, 1e-9),
        distinct,
        of_device,
        sum(widths),
        allowed_kinds(table, len(hotness), 1 in widths, solver.num_devices),
        frequent,
        VECTOR_TYPES[table.vector_type],
        wire=table.wire or solver.wire,
        exchange=table.exchange,
        rows_from="given" if known else "samples" if seen else "batch",
    )


def _most_rows(table: SparseEmbedding, slots: int, solver: Solver) -> int:
    """Rows that a table may have on all devices together; 0: no bound."""
    kind, holders = table.placement.kind if table.placement else "", solver.num_devices
    if kind in ("one_device", "replicated", "by_column"):
        holders = 1  # its own budget: only a plan's placement has that of all devices on one
    elif kind == "by_slot":
        holders = min(holders, slots)
    bounds = [table.rows_per_gpu * holders, table.life.max_rows]
    return min((bound for bound in bounds if bound), default=0)


def _tiers(graph: Graph) -> list[Tiers | None]:
    """Of each table; None where all its rows are in the devices' memory."""
    sizes = budgets_of_tables(graph, [table.to_spec() for table in graph.embeddings])
    found: list[Tiers | None] = []
    for size in sizes:
        device = size.get("memory_device")
        host, disk = size.get("memory_host"), size.get("memory_disk")
        found.append(None if device is None else Tiers(device, host, disk))
    return found


class _Keys:
    """Keys of a table in some samples, told apart by slot where its rows are."""

    def __init__(self, table: SparseEmbedding, data: FirstKeys) -> None:
        self._samples = data.samples
        self._inputs = []  # of each: keys, and how many those before each sample are
        for name in table.bottom_names:
            keys, offsets = data.sparse[name]
            slots = (len(offsets) - 1) // data.samples
            if table.is_localized:
                ends = offsets.astype(np.int64)
                counts = ends[1:] - ends[:-1]
                keys = keys * slots + np.repeat(np.arange(len(counts)) % slots, counts)
            self._inputs.append((keys, offsets[::slots].astype(np.int64)))

    def of(self, samples: int, first: int = 0) -> Keys:
        """Of some samples."""
        ends = (first, first + samples)
        parts = [keys[offsets[ends[0]] : offsets[ends[1]]] for keys, offsets in self._inputs]
        return np.concatenate(parts)

    def distinct(
        self, samples: int, first: int = 0, without: Keys | None = None
    ) -> tuple[int, int]:
        """Distinct rows of some samples, and their keys; some keys may be left out."""
        keys = self.of(samples, first)
        if without is not None:
            keys = keys[~np.isin(keys, without)]
        return len(np.unique(keys)), len(keys)

    def frequent(self, table: SparseEmbedding, solver: Solver) -> FrequentLoad | None:
        """What a hybrid makes of the table; None where no key is frequent."""
        keys = self.of(self._samples)
        param, budget = table.hybrid_embedding_param, table.rows_per_gpu
        named = table.placement.frequent if table.placement is not None else None
        if named is None:
            chosen = frequent_keys(keys, param, solver, self._samples, budget)
        else:
            chosen = np.array(named, np.int64)
        if table.is_localized or not len(chosen):
            return None
        own = max(1, solver.batchsize // solver.num_devices)
        return FrequentLoad(
            len(chosen),
            float(np.isin(keys, chosen).mean()),
            self.share(solver.batchsize, chosen),
            self.share(own, chosen),
        )

    def share(self, batch: int, without: Keys | None = None) -> float:
        """Distinct rows of batches of this size, as a share of their keys: the mean of up to
        eight."""
        size = min(batch, self._samples)
        starts = range(0, self._samples - size + 1, size)[:8]
        found = [self.distinct(size, first, without) for first in starts]
        keys = sum(count for _, count in found)
        return sum(rows for rows, _ in found) / keys if keys else 1.0
