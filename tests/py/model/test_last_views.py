# SPDX-License-Identifier: Apache-2.0
"""The last that holds a model may be a view, which any thread lets go of, its readers' too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hugectr

_PROGRAM = """
import gc, sys, threading, time
sys.path.insert(0, {package!r})
import hugectr
from hugectr.data import Columns, parquet

held, armed, waits, go, gone = [], threading.Event(), threading.Event(), threading.Event(), []
decode = parquet.ParquetBlocks.decode

def decode_and_let_go(self, *block):
    if armed.is_set():
        waits.set()
        assert go.wait(60)
        held.clear()
        gone.append(threading.current_thread() is not threading.main_thread())
    return decode(self, *block)

parquet.ParquetBlocks.decode = decode_and_let_go
columns = Columns(label="label", dense=["d0"], sparse={{"keys": ["k0"]}})
kind, layer = hugectr.Layer_t, hugectr.DenseLayer
model = hugectr.Model(
    hugectr.CreateSolver(batchsize=32, vvgpu=[[0]], device="cpu", i64_input_key=True),
    hugectr.DataReaderParams(hugectr.DataReaderType_t.Parquet, source={source!r}, columns=columns),
    hugectr.CreateOptimizer(hugectr.Optimizer_t.SGD),
)
keys = hugectr.DataReaderSparseParam("keys", 1, True, 1)
model.add(hugectr.Input(1, "label", 1, "dense", [keys]))
embedding = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
model.add(hugectr.SparseEmbedding(embedding, 1, 4, "sum", "emb", "keys"))
model.add(layer(kind.Reshape, ["emb"], ["flat"], leading_dim=4))
model.add(layer(kind.InnerProduct, ["flat"], ["logit"], num_output=1))
model.add(layer(kind.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
model.compile()
assert model.train()
held.append(model.session.table(0).view(0)["keys"])
armed.set()
while not waits.wait(0.05):  # so long that no step needs a block that waits
    assert model.train()
del model
gc.collect()
go.set()
while not gone:
    time.sleep(0.01)
print("let go by a reader", gone[0])
"""


def test_a_reader_that_lets_go_of_the_last_view_does_not_wait_for_itself(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = {
        "label": rng.integers(0, 2, 4096).astype(np.float32),
        "d0": rng.random(4096).astype(np.float32),
        "k0": rng.integers(0, 50, 4096),
    }
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet", row_group_size=64)
    package = str(Path(hugectr.__file__).parents[1])
    program = _PROGRAM.format(package=package, source=str(tmp_path / "rows.parquet"))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "let go by a reader True" in done.stdout
