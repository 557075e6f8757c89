# SPDX-License-Identifier: Apache-2.0
"""The models that ``job_save.py`` saves, and their tables full of rows."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import numpy as np
from save_rate import GB, _model

import hugectr
from hugectr import processes

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "models"))

from ctr_batches import make_batches
from ctr_models import make_model

SLOTS = 26
CHUNK = 1 << 20  # rows that are loaded at a time


def row_bytes(dim: int) -> int:
    """A key, a vector, and Adam's two states."""
    return 8 + 3 * 4 * dim


def devices(a: argparse.Namespace) -> list[list[int]]:
    """Devices a process, of one machine."""
    ranks = range(processes.current().size)
    first = [0 if a.device == "cpu" else rank * a.gpus for rank in ranks]
    return [list(range(begin, begin + a.gpus)) for begin in first]


def build(a: argparse.Namespace, place: Path) -> hugectr.Model:
    """``a.model``, compiled: "small" has steps of a millisecond on a CPU; "dlrm" has the layers and
    batches of the GPU benchmarks, and its batches name the rows that ``fill`` makes."""
    if a.model == "small":
        return _model(place, a.dim, a.device, devices(a))
    sizes = {"background": a.background_gigabytes, "native": a.gigabytes, "original": a.gigabytes}
    largest = max(sizes[kind] for kind in a.only or sizes)
    settings = argparse.Namespace(
        model="dlrm",
        opt="adam",
        hot=1,
        slots=SLOTS,
        rows=-(-table_rows(a.dim, largest) // SLOTS),
        dim=a.dim,
        batch=a.batch,
        batches=a.batches,
        device=a.device,
        key="int64",
        cuda_graph=True,
        precision=a.precision,
        resident=False,
        workers=4,
        seed=1,
        vvgpu=devices(a),
        embedding="Distributed",
        exchange="auto",
        search=True,
    )
    return make_model(settings, make_batches(settings, 0))


def table_rows(dim: int, gigabytes: float) -> int:
    """Rows of a table of so many GB."""
    return int(gigabytes * GB / row_bytes(dim))


def fill(model: hugectr.Model, dim: int, gigabytes: float) -> None:
    """Rows of the whole job, in no order of their keys, as training makes them; each process makes
    its own. The values are the same few megabytes again and again."""
    rows = table_rows(dim, gigabytes)
    step = max(1, int(rows * 0.618))  # far from the last one, and every key comes once
    while math.gcd(step, rows) > 1:
        step += 1
    values = np.random.default_rng(1).random((min(rows, CHUNK), dim), np.float32)
    rank = processes.current().rank
    for begin in range(0, rows, CHUNK):
        keys = np.arange(begin, min(begin + CHUNK, rows)) * step % rows
        keys = keys[model.session.table(0).row_processes(keys) == rank]
        own = values[: len(keys)]
        bag = {"keys": keys, "slot_ids": None, "vectors": own, "states": [own, own]}
        model.session.table(0).load(bag)
