# SPDX-License-Identifier: Apache-2.0
"""One process of a job whose tables are placed in every way: placed_job.py SETTINGS.json."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from model.placed_models import DISTRIBUTED, KINDS, make_model, outcome, random_tables

from hugectr import _core, processes

settings = json.loads(Path(sys.argv[1]).read_text())
folder, action = Path(settings["folder"]), settings["action"]
tables = random_tables(settings["seed"], settings.get("kinds", KINDS))
if settings.get("exchange"):
    tables = [replace(table, exchange=settings["exchange"]) for table in tables]
if settings.get("plan"):  # by what it says, and a table whose frequent keys are counted
    tables = [replace(table, placement=None) for table in tables]
    first = next(i for i, table in enumerate(tables) if table.kind is DISTRIBUTED)
    tables[first] = replace(tables[first], placement="counted")
model = make_model(
    tables,
    settings["vvgpu"],
    settings["optimizer"],
    plan=settings.get("plan"),
    **settings.get("solver", {}),
)
if action == "resume":
    model.resume(folder / settings["source"])
if action == "files":
    files = range(len(tables))
    model.load_sparse_weights([f"{folder}/m{i}_sparse_10.model" for i in files])
    model.load_sparse_optimizer_states([f"{folder}/m{i}_opt_sparse_10.model" for i in files])
found = outcome(model, settings["steps"])
found["collectives"] = np.array([_core.work_counts()["collectives"]])
if action == "save":
    model.save(folder / "run")
    model.save_params_to_files(str(folder / "m"), 10)
np.savez(folder / f"{action}-{processes.current().rank}.npz", **found)
