# SPDX-License-Identifier: Apache-2.0
"""Trains, and then the threads of the core of process 0 get no memory: starved_job.py FOLDER WHEN.

``WHEN`` is ``train`` or ``build``: what process 0 is at when its threads get none any more. It is
started with the library of ``oracle/starved_threads.c`` before the others. Prints ``ended:`` and
the error, or ``ended: done``.
"""

import ctypes
import sys
import traceback
from pathlib import Path

from oracle.small_data import SIZES, generate
from oracle.small_net import build

import hugectr
from hugectr import processes
from hugectr.spec.enums import DataReaderType_t

folder, when = Path(sys.argv[1]), sys.argv[2]
me = processes.current().rank
library = ctypes.CDLL(None)
source, eval_source = generate(folder / str(me), "Parquet", num_files=6)


def starve(yes):
    if me == 0:
        library.starve(yes)


def work():
    starve(int(when == "build"))
    model = build(
        DataReaderType_t.Parquet,
        source,
        eval_source=eval_source,
        vvgpu=[[2 * p, 2 * p + 1] for p in range(processes.current().size)],
        num_workers=3,
        slot_size_array=SIZES,
    )
    model.train()
    starve(1)
    for _ in range(60):
        model.train()


try:
    work()
    line = "done"
except (MemoryError, hugectr.DataError, hugectr.DeviceError, hugectr.CommError) as error:
    starve(0)
    traceback.print_exc()
    line = f"{type(error).__name__}: {error}"
if me == 0:
    starve(0)
    sys.stdout.write(f"refused: {library.refused()}\n")
sys.stdout.write(f"ended: {line}\n")
sys.stdout.flush()
