# SPDX-License-Identifier: Apache-2.0
"""Jobs of several processes in tests.

``run_job`` starts ``python process_jobs.py MODULE FUNCTION FOLDER OPTIONS`` for each process; what
the function returns is saved by torch, a file a process. With ``HUGECTR_TEST_DEVICE=cuda`` each
process has a GPU of its own, which is torch's default device there, and torch's collectives on it
are NCCL's; all processes of a job need one, else there is an error.
"""

import importlib
import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch_programs import environment

#: Seconds after which somebody who waits for another process gives up; tests never come near.
PATIENCE = 300


def run_job(function, folder, size=2, **options):
    """Results of a function of a test module on several processes, by rank."""
    folder.mkdir(parents=True, exist_ok=True)
    module = Path(sys.modules[function.__module__].__file__).stem
    (folder / "store").unlink(missing_ok=True)
    said = [open(folder / f"said{rank}", "w+") for rank in range(size)]  # noqa: SIM115
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, module, function.__name__, folder, json.dumps(options)],
            env={
                **environment(),
                "RANK": str(rank),
                "WORLD_SIZE": str(size),
                "OMP_NUM_THREADS": "1",
            },
            stdout=said[rank],
            stderr=subprocess.STDOUT,
        )
        for rank in range(size)
    ]
    try:
        codes = [process.wait(timeout=500) for process in processes]
    finally:
        for process in processes:
            process.kill()
        texts = []
        for file in said:
            file.seek(0)
            texts.append(file.read())
            file.close()
    assert codes == [0] * size, "\n".join(f"--- process {r}\n{t}" for r, t in enumerate(texts))
    return [
        torch.load(folder / f"result{rank}", weights_only=True, map_location="cpu")
        for rank in range(size)
    ]


def job_device():
    """The device of this process, which is torch's default device too."""
    return torch.empty(0).device


def generator(seed):
    """A generator of random numbers on the device of this process."""
    return torch.Generator(job_device()).manual_seed(seed)


def start_device(rank, size):
    """Makes this process's device the default one; returns the backend of its collectives."""
    if os.environ.get("HUGECTR_TEST_DEVICE", "cpu") == "cpu":
        return "gloo"
    there = torch.cuda.device_count()
    if there < size:
        raise RuntimeError(f"{size} processes need a GPU each, {there} are there")
    torch.cuda.set_device(rank)
    torch.set_default_device(torch.device("cuda", rank))
    return "cpu:gloo,cuda:nccl"


def main():
    module, function, folder, options = sys.argv[1:]
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.manual_seed(1)
    torch.set_num_threads(1)
    dist.init_process_group(
        start_device(rank, size),
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=PATIENCE),
    )
    result = getattr(importlib.import_module(module), function)(Path(folder), **json.loads(options))
    torch.save(result, Path(folder) / f"result{rank}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
