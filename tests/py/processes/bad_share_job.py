# SPDX-License-Identifier: Apache-2.0
"""Reads data with damage of every kind until that is too much: FORMAT SHARE FOLDER FILE.

Process 0 writes how many batches trained, and the error without the name of a process.
"""

import re
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from faults.small_data import COLUMNS, arrays, table
from oracle.small_net import build

import hugectr
from hugectr.base.errors import DataError
from hugectr.data import write_file_list, write_norm
from hugectr.processes import current

kind, share, folder, out = sys.argv[1], float(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4])
group = current()
settings = {"check_type": hugectr.Check_t.Sum, "on_bad_data": "skip", "max_bad_share": share}
if kind == "norm":
    if group.rank == 0:
        label, dense, keys = arrays()
        dense[::15, 0] = np.nan
        paths = [folder / f"{i}.norm" for i in range(3)]
        for path in paths:
            write_norm(path, label, dense, keys, check="Sum", i64=True)
        data = paths[1].read_bytes()
        paths[1].write_bytes(data[: len(data) // 2])  # half of its samples are lost
        write_file_list(folder / "list.txt", paths)
    types, source = hugectr.DataReaderType_t.Norm, folder / "list.txt"
else:
    if group.rank == 0:
        good = table(1200)
        column = good["dense0"].to_numpy().copy()
        column[::7] = np.nan
        bad = good.set_column(good.column_names.index("dense0"), "dense0", [column])
        pq.write_table(bad, folder / "a.parquet", row_group_size=50)
    types, source = hugectr.DataReaderType_t.Parquet, folder / "a.parquet"
    settings["columns"] = COLUMNS
if group.size > 1:
    group.all_gather(b"written")
vvgpu = [[0, 1]] if group.size == 1 else [[0]] * group.size
model = build(types, str(source), repeat=False, vvgpu=vvgpu, num_workers=3, **settings)
batches, text = 0, "no error"
try:
    while model.train():
        batches += 1
except DataError as error:
    text = re.sub(r"^process \d+: ", "", str(error))
    text = re.sub(r"; first reasons.*", "", text)  # of the process that speaks
if group.rank == 0:
    out.write_text(f"{batches}\n{text}\n")
