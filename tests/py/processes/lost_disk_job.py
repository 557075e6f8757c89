# SPDX-License-Identifier: Apache-2.0
"""A job over a disk that one process loses: lost_disk_job.py DATA DISK. Both are told."""

import dataclasses
import os
import sys
from pathlib import Path

import pytest
from model.nets import make_model
from model.test_disk_tier import on_disk
from model.test_tiers import course, setup_of

from hugectr import processes

data, disk = sys.argv[1], Path(sys.argv[2])
setup = dataclasses.replace(setup_of(processes=2), train=data, test=data)
model = make_model(on_disk(setup, disk))
course(model, 20)
rank = processes.current().rank
if rank == 1:
    (folder,) = disk.glob("*-device1")
    os.rename(folder, folder.with_name("away"))
with pytest.raises(RuntimeError) as error:  # whose read comes first, and who hears of it
    course(model, 100)
print(f"process {rank} is told: {error.value}")
