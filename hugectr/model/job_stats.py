# SPDX-License-Identifier: Apache-2.0
"""What happened to the rows of tables on all processes of a job."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hugectr.processes.agreement import together
from hugectr.processes.group import ProcessGroup
from hugectr.spec.embedding import SparseEmbedding

Stats = list[dict[str, int]]


def stats_of_job(
    embeddings: Sequence[SparseEmbedding], group: ProcessGroup, own: Callable[[], Stats]
) -> Stats:
    """Each table's numbers added up over the processes. Collective.

    A bound of the whole job, which each of them has told, counts once. Rows that several processes
    have are counted by one of them.
    """
    every = together(group, own, call="Model.table_stats(of_job=True)")
    total = [
        {name: sum(stats[t][name] for stats in every) for name in table}
        for t, table in enumerate(every[0])
    ]
    for embedding, table in zip(embeddings, total, strict=True):
        if embedding.life.max_rows:
            table["max_rows"] = embedding.life.max_rows
    return total
