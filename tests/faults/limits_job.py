# SPDX-License-Identifier: Apache-2.0
"""Builds, trains, evaluates, saves and resumes below a limit: limits_job.py SETTINGS (JSON).

Prints ``ended: done``, or ``ended:`` and the error that says what was short.
"""

import ctypes
import json
import os
import resource
import sys
import traceback
from pathlib import Path

from oracle.small_net import DENSE, SIZES

import hugectr

# Public names are loaded when they are first asked for: what that takes belongs to the import.
from hugectr import Model, processes
from hugectr.spec.enums import DataReaderType_t

settings = json.loads(sys.argv[1])
if settings.get("user"):
    # Another user for the limit of threads, which root has not; the files are still root's.
    os.setresuid(settings["user"], settings["user"], 0)
    ctypes.CDLL(None).setfsuid(0)


def address_space():
    """Bytes of address space that this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def threads_of_user():
    """Threads that this process' user has now."""
    count = 0
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if place.stat().st_uid == os.getuid():
                count += len(list((place / "task").iterdir()))
        except OSError:  # it has ended
            continue
    return count


def descriptors():
    """The first number that no file of this process has."""
    return max(int(name) for name in os.listdir("/proc/self/fd")) + 1


BASES = {
    "AS": (resource.RLIMIT_AS, address_space),
    "NPROC": (resource.RLIMIT_NPROC, threads_of_user),
    "NOFILE": (resource.RLIMIT_NOFILE, descriptors),
    "FSIZE": (resource.RLIMIT_FSIZE, lambda: 0),
}


def limit():
    """Allow so much more than there is now."""
    if "limit" in settings and processes.current().rank == settings["rank"]:
        kind, base = BASES[settings["limit"]]
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (base() + settings["more"], hard))


def build(kind, source, vvgpu, **reader):
    """A model that reads, looks up, multiplies matrices and keeps optimizer states."""
    solver = hugectr.CreateSolver(
        batchsize=96, batchsize_eval=96, lr=0.01, seed=3, i64_input_key=True, vvgpu=vvgpu
    )
    params = hugectr.DataReaderParams(kind, source, num_workers=3, **reader)
    optimizer = hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam)
    model = Model(solver, params, optimizer)
    sparse = hugectr.DataReaderSparseParam("keys", 1, True, len(SIZES))
    layer, t = hugectr.DenseLayer, hugectr.Layer_t
    kind = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
    model.add(hugectr.Input(1, "label", DENSE, "dense", [sparse]))
    model.add(hugectr.SparseEmbedding(kind, 1, 16, "sum", "table", "keys"))
    model.add(layer(t.Reshape, ["table"], ["flat"], leading_dim=16 * len(SIZES)))
    model.add(layer(t.Concat, ["flat", "dense"], ["features"]))
    model.add(layer(t.InnerProduct, ["features"], ["fc1"], num_output=256))
    model.add(layer(t.ReLU, ["fc1"], ["relu1"]))
    model.add(layer(t.InnerProduct, ["relu1"], ["logit"], num_output=1))
    model.add(layer(t.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    return model


def work():
    kind = settings["kind"]
    size = processes.current().size
    options = {"eval_source": settings["eval_source"]}
    if kind == "Parquet":
        import pyarrow.parquet  # noqa: F401 what it needs belongs to the import
    else:
        options["check_type"] = hugectr.Check_t.Sum
    limit()
    rows = [[2 * p, 2 * p + 1] for p in range(size)]
    model = build(DataReaderType_t[kind], settings["source"], rows, **options)
    for _ in range(5):
        model.train()
    model.evaluate()
    model.save(settings["folder"], background=settings["background"])
    model.train()
    model.wait_for_save()
    model.resume(settings["folder"])
    model.train()
    if "limit" not in settings:
        peak = Path("/proc/self/status").read_text().partition("VmPeak:")[2].split()[0]
        say(f"peak: {int(peak) * 1024}")


def say(line):
    """One write: processes of a job share their output."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


start = address_space()
try:
    work()
except (
    MemoryError,
    OSError,
    hugectr.DataError,
    hugectr.DeviceError,
    hugectr.CommError,
) as error:
    traceback.print_exc()
    say(f"ended: {type(error).__name__}: {error}")
    sys.exit(0 if processes.current().size == 1 else 1)
say(f"start: {start}")
say("ended: done")
