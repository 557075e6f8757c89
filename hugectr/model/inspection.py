# SPDX-License-Identifier: Apache-2.0
"""Values and counters of a compiled model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hugectr import _core
from hugectr.base.arguments import check_bool, check_enum, check_int, check_str
from hugectr.base.errors import did_you_mean, rejected
from hugectr.model.graph import Graph
from hugectr.model.job_stats import stats_of_job
from hugectr.model.memory_trial import take_memory
from hugectr.model.placing import predict_together
from hugectr.model.table_memory import disks_of
from hugectr.model.unstored_tensors import value_of
from hugectr.plan.dense_work import work_of
from hugectr.plan.disk_room import few_on_disks
from hugectr.plan.memory import MemoryPlan
from hugectr.plan.placements import PlacementPlan
from hugectr.plan.plan import Plan
from hugectr.spec.enums import Tensor_t


class Inspection:
    """Looks into a compiled model; copies, not its memory."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def check_out_tensor(
        self, tensor_name: str, tensor_type: Tensor_t = Tensor_t.Train
    ) -> npt.NDArray[np.float32]:
        """Value of a tensor after the last train() or eval(), the whole global batch.

        The original returned gradients for ``Tensor_t.Train``; here it is the value. The schedule
        never stores a product that an activation follows, or a Concat that a product reads: those
        are computed again, with the weights as they are now.
        """
        kind = check_enum("check_out_tensor: tensor_type", tensor_type, Tensor_t)
        name = check_str("check_out_tensor: tensor_name", tensor_name)
        return value_of(self._graph.session.network, name, kind is Tensor_t.Train)

    def table_stats(self, *, of_job: bool = False) -> list[dict[str, int]]:
        """What there is of each table on this process's devices, and what happened to its rows.

        Parameters
        ----------
        of_job : bool
            On the devices of all processes instead, added up: all of them make the call.

        Returns
        -------
        list of dict
            Of each table ``rows``; ``max_rows``, of the whole job where the table has one, else the
            budget of these devices (0: none); ``index_slots``, places of the index; ``bytes``;
            ``unique_plans``, batches whose distinct rows travelled between devices (``exchange`` of
            :class:`hugectr.SparseEmbedding`). Since the model was built, of rows with a life:
            ``admitted``, rows that came to train; ``refused``, that went before; ``evicted``, that
            went to make room or of age. Of any table ``erased``, that ``evict`` took out or a delta
            that was loaded. Of tables with ``memory=`` also ``host_bytes``, and of all
            plans so far ``hits`` and ``misses`` (distinct rows that had a place on their device or
            needed one), ``bytes_fetched`` to the device and ``bytes_written_back``; else zeros.
            With a disk also ``host_hits`` and ``host_misses``, rows that a device lacked and host
            memory had or lacked; ``disk_rows`` and ``disk_bytes``, what is on the disk now, holes
            of rewritten rows among the bytes; ``disk_groups_read`` and ``disk_groups_written``, of
            such rows; ``disk_bytes_read`` and ``disk_bytes_written``, with the sweep's;
            ``segments_swept`` and the ``rows_swept`` out of them.
        """
        if check_bool("table_stats: of_job", of_job):
            return stats_of_job(self._graph.embeddings, self._graph.group, self.table_stats)
        found = []
        tables = self._graph.session.tables()
        for embedding, table in zip(self._graph.embeddings, tables, strict=True):
            stats = table.stats()
            stats["max_rows"] = embedding.life.max_rows or stats["max_rows"]
            found.append(stats)
        return found

    def loss_scale(self) -> float:
        """float16: what the gradients of the next step are multiplied by; 1 without scaling."""
        return self._graph.session.network.loss_scaling_state()["scale"]

    def skipped_steps(self) -> int:
        """Steps that changed nothing because a gradient overflowed float16."""
        return int(self._graph.session.network.loss_scaling_state()["skipped_steps"])

    def memory_report(self, by_tensor: bool = True) -> list[tuple[str, str, int]]:
        """Who holds how much memory on this process's devices: owner, name, bytes.

        Tensors of the network share memory, and their entries overlap. Without ``by_tensor`` all of
        a network's are one entry, batches that wait on the devices are there too, and the sum is
        what the model holds: what ``plan`` counts.
        """
        return self._graph.session.memory_report(check_bool("memory_report: by_tensor", by_tensor))

    def plan(
        self,
        rows: Mapping[str, int] | None = None,
        *,
        machine: str | None = None,
        fits: bool = False,
    ) -> Plan:
        """What the model takes, before compile() and without its devices.

        Parameters
        ----------
        rows : mapping of str to int, optional
            Rows to count of a table, by its name, all devices together. Without, all rows that its
            budget allows; where it has none, no rows, and ``memory.tables`` says what each costs.

        machine : str, optional
            "h100", "h200", "cpu", a JSON file of rates, or "here" for those of the machine that
            this runs on: ``placement`` is then the plan that is predicted to be fastest there,
            whatever the solver's says. Tables that have a ``placement`` keep it. Where the solver
            says "auto" and nothing is compiled yet, the memory is that of this plan, else of the
            placements that the model has: ``memory_of`` says which.

        fits : bool
            Find out whether the bytes are there on this machine (process 0's of a job), by taking
            them all for a moment, in a process of its own: ``plan.fits``. Budgets of tables that
            are too small (``plan.memory.lacking``) do not fit either. What trains on the same
            devices may run out of memory meanwhile.

        Returns
        -------
        Plan
            ``print(model.plan().memory)`` shows it.

        Raises
        ------
        InvalidArgument
            When no Input was added, what was added can not be a model, or there is no such table.
        """
        graph = self._graph
        graph.to_spec()  # names a missing Input
        for name in rows or {}:
            if name not in graph.table_names:
                near = did_you_mean(str(name), graph.table_names)
                raise rejected("plan: rows", name, f"one of {graph.table_names}{near}")
        counts = [
            None if rows is None or name not in rows else check_int("plan: rows", rows[name], 0)
            for name in graph.table_names
        ]
        predicted = None if machine is None else predict_together(graph, machine, rows)
        if predicted is not None and graph.solver.plan == "auto":
            graph = graph.placed_by(predicted)  # and trains by one for the machine it is on
        else:
            graph.place_tables()
        spec = graph.to_spec()
        assert graph.input is not None
        reader = graph.reader_params.to_spec(graph.input)
        entries, tables, ops, lacking = _core.footprint(
            graph.solver.to_spec(), reader, spec, counts
        )
        warnings = few_on_disks(disks_of(graph, spec["embeddings"]))
        memory = MemoryPlan.of(entries, tables, lacking, warnings)
        work = tuple(work_of(ops))
        fit = take_memory(memory) if check_bool("plan: fits", fits) else None
        whose = "" if predicted is None else _whose(graph.solver.plan, graph is not self._graph)
        return Plan(memory, predicted, work, fit, whose)

    def get_params_num(self, *, of_job: bool = False) -> int:
        """Number of trainable values: dense weights and the rows that this process holds.

        Parameters
        ----------
        of_job : bool
            The rows of all processes instead, which all make the call.
        """
        sizes = [embedding.embedding_vec_size for embedding in self._graph.embeddings]
        rows = [stats["rows"] for stats in self.table_stats(of_job=of_job)]
        sparse = sum(n * d for n, d in zip(rows, sizes, strict=True))
        return int(self._graph.session.network.dense_weights().size) + sparse


def _whose(plan: str | Path | PlacementPlan | None, shown: bool) -> str:
    """Which placements memory is of that is printed above a proposal."""
    if shown:
        return "the plan below"
    of = "the tables' own placements"
    if plan is not None:
        of = "the plan that the model trains by"
        of += f" ({plan})" if isinstance(plan, (str, Path)) else ""
    return f"{of}, not of the plan below"
