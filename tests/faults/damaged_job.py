# SPDX-License-Identifier: Apache-2.0
"""One of two processes that resume a damaged checkpoint: damaged_job.py FOLDER WAY."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from oracle.checkpoint_net import CASES, build, everything, rows, train

import hugectr
from faults.damaged_files import WAYS
from faults.harness import ROOT
from hugectr import checkpoints, processes

FIXTURES = ROOT / "tests" / "fixtures" / "checkpoints" / "b17f4bf"


def main() -> None:
    """Prints ``held``."""
    folder, way = Path(sys.argv[1]) / "run", sys.argv[2]
    group = processes.current()
    if group.rank == 0:
        shutil.copytree(FIXTURES / "job", folder)
    model = build(**CASES["job"])
    train(model, 1)
    place = next((FIXTURES / "job").iterdir()).name
    for file in ("table1.state0.2-of-2", "table0.key.1-of-2", "dense.states"):
        before = everything(model), [rows(model.session, index) for index in range(2)]
        group.barrier()
        if group.rank == 0:
            shutil.copytree(folder / place, folder.parent / "kept", symlinks=True)
            WAYS[way](folder / place / file)
        group.barrier()
        said = ""
        try:
            model.resume(folder / place)
        except hugectr.DataError as error:
            said = str(error)
        assert str(folder / place) in said, f"{file}: {said}"
        told = {bytes(text) for text in group.all_gather(said.encode()[-150:])}
        assert len(told) == 1, told
        after = everything(model), [rows(model.session, index) for index in range(2)]
        assert after == before
        group.barrier()
        if group.rank == 0:
            shutil.rmtree(folder / place)
            (folder.parent / "kept").rename(folder / place)
        group.barrier()
        train(model, 1)
    assert model.resume(folder / place) == 3
    checkpoints.verify(folder / place)
    print("held", flush=True)


if __name__ == "__main__":
    main()
