# SPDX-License-Identifier: Apache-2.0
"""Trains while threads of the core of process 0 get no memory.

starved_job.py KIND SOURCE EVAL_SOURCE WHEN MIN MAX

``WHEN`` is ``train`` or ``build``: what process 0 is at when its threads get no memory any more, in
requests of ``MIN`` to ``MAX`` bytes. It is started with the library of ``starved_threads.c`` before
the others. Prints ``ended:`` and the error, or ``ended: done``.
"""

import ctypes
import sys
import time
import traceback

from oracle.small_net import SIZES, build

import hugectr
from hugectr import processes
from hugectr.spec.enums import Check_t, DataReaderType_t

kind, source, eval_source, when = sys.argv[1:5]
least, most = map(int, sys.argv[5:7])
me = processes.current().rank
library = ctypes.CDLL(None)


library.starve.argtypes = [ctypes.c_size_t, ctypes.c_size_t]


def starve():
    if me == 0:
        library.starve(least, most)


def feed():
    if me == 0:
        library.starve(1, 0)


def until_nothing_is_read(model):
    """A thread that is inside another library, which may end the process, is not to be met."""
    before, end = -1, time.monotonic() + 20
    while time.monotonic() < end:
        now = model.session.reader.metrics(True)["batches"]
        if now == before:
            return
        before = now
        time.sleep(0.5)


def work():
    if when == "build":
        starve()
    model = build(
        DataReaderType_t[kind],
        source,
        eval_source=eval_source,
        vvgpu=[[2 * p, 2 * p + 1] for p in range(processes.current().size)],
        num_workers=3,
        **({"check_type": Check_t.Sum} if kind == "Norm" else {"slot_size_array": SIZES}),
    )
    model.train()
    until_nothing_is_read(model)
    starve()
    for _ in range(60):
        model.train()


try:
    work()
    line = "done"
except (MemoryError, hugectr.DataError, hugectr.DeviceError, hugectr.CommError) as error:
    feed()
    traceback.print_exc()
    line = f"{type(error).__name__}: {error}"
if me == 0:
    feed()
    sys.stdout.write(f"refused: {library.refused()}\n")
sys.stdout.write(f"ended: {line}\n")
sys.stdout.flush()
