# SPDX-License-Identifier: Apache-2.0
"""What a checkpoint will take as a model for prediction, before a weight of it is read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from hugectr import _core
from hugectr.base.arguments import check_choice, check_int
from hugectr.base.errors import InvalidArgument, did_you_mean, rejected
from hugectr.plan.memory import MemoryPlan
from hugectr.plan.plan import Plan
from hugectr.serving.rebuilt import BATCH, layer_specs, parts_of
from hugectr.spec.solver import DEVICES


def plan_of_saved(
    path: str | os.PathLike[str], device: str = "cpu", rows: Mapping[str, int] | None = None
) -> Plan:
    """Memory of ``hugectr.load(path, device=device)``; only manifests are read.

    Parameters
    ----------
    path : path-like
        A checkpoint, or a folder of them: then the newest.
    device : {"cpu", "cuda", "auto"}
    rows : mapping of str to int, optional
        Rows to count of a table, by its name, instead of those that were saved. Of deltas these
        are the rows of all that they build on: a row that is in several counts as often.

    Returns
    -------
    Plan
        Each thread that predicts takes activations of its own besides.

    Raises
    ------
    InvalidArgument
        When there is no checkpoint, one that does not describe its model, or no such table.
    DataError
        As ``hugectr.load``.
    """
    check_choice("plan: device", device, DEVICES)
    saved = _core.read_description(os.fspath(path))
    if not saved["model"]:
        raise InvalidArgument(
            f"plan: {saved['path']} does not describe its model (it was written by an earlier "
            "version, or comes from the original layout): give the config that it was trained with"
        )
    description = json.loads(saved["model"])
    parts = parts_of(saved["path"], description, device, saved["batchsize_eval"] or BATCH)
    names = [table.sparse_embedding_name for table in parts.embeddings]
    counts = dict(zip(names, saved["table_rows"], strict=True))
    for name, count in (rows or {}).items():
        if name not in counts:
            raise rejected("plan: rows", name, f"one of {names}{did_you_mean(str(name), names)}")
        counts[name] = check_int("plan: rows", count, 0)
    solver, model = parts.specs(layer_specs(description))
    entries, tables, _, lacking = _core.footprint(solver, None, model, list(counts.values()))
    return Plan(MemoryPlan.of(entries, tables, lacking))
