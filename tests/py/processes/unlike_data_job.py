# SPDX-License-Identifier: Apache-2.0
"""A job whose process 1 has other data: unlike_data_job.py WHAT."""

import sys
from pathlib import Path

import numpy as np
from oracle.streaming_net import BATCH, ONES, TWOS, build, stream

import hugectr
from hugectr import processes
from hugectr.data import from_arrow, write_file_list, write_norm

what, other = sys.argv[1], processes.current().rank == 1
data = stream(np.random.default_rng(3), 4)
at = np.random.default_rng(7).permutation(4 * BATCH) if other else np.arange(4 * BATCH)
reader = {}
if what == "order":
    data = {name: values[at] for name, values in data.items()}
if what == "one sample" and other:
    data["dense"][17, 1] += 1
if what == "fewer" and other:
    data = {name: values[:-1] for name, values in data.items()}


def of_table(data, **reader):
    """A model that reads an Arrow table."""
    import pyarrow as pa

    wide = {"label": data["label"]} | {f"d{i}": data["dense"][:, i] for i in range(3)}
    wide |= {f"one{i}": data["ones"][:, i] for i in range(ONES)}
    wide |= {f"two{i}": data["twos"][:, i] for i in range(TWOS)}
    table = pa.table(wide)
    if other:  # the same chunk, elsewhere in its memory
        table = pa.concat_tables([table, table]).combine_chunks().slice(len(table))
    names = list(wide)
    sparse = {"ones": names[4:6], "twos": names[6:]}
    source = from_arrow(table, label="label", dense=names[1:4], sparse=sparse)
    return small(hugectr.DataReaderType_t.Parquet, source, **reader)


def files_of(data, folder):
    """A file list of this process's own copy of the data."""
    (folder / str(int(other))).mkdir(parents=True)
    file, files = folder / str(int(other)) / "data.bin", folder / str(int(other)) / "files.txt"
    slots = np.concatenate([data["ones"], data["twos"]], axis=1)
    write_norm(file, data["label"], data["dense"], slots, check="None", i64=True)
    write_file_list(files, [file])
    return str(files)


def small(kind, source, **reader):
    """A model of one tower over a source."""
    model = hugectr.Model(
        hugectr.CreateSolver(
            batchsize=BATCH, batchsize_eval=BATCH, device="cpu", i64_input_key=True, vvgpu=[[0]] * 2
        ),
        hugectr.DataReaderParams(kind, source, **reader),
        hugectr.CreateOptimizer(hugectr.Optimizer_t.SGD),
    )
    slots = {"ones": ONES, "twos": TWOS}
    params = [hugectr.DataReaderSparseParam(name, 1, True, slots[name]) for name in slots]
    model.add(hugectr.Input(1, "label", 3, "dense", params))
    kind = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
    model.add(hugectr.SparseEmbedding(kind, 0, 4, "sum", "one", "ones"))
    model.add(hugectr.SparseEmbedding(kind, 0, 4, "sum", "two", "twos"))
    layer, t = hugectr.DenseLayer, hugectr.Layer_t
    model.add(layer(t.Reshape, ["one"], ["flat"], leading_dim=ONES * 4))
    model.add(layer(t.Reshape, ["two"], ["flat2"], leading_dim=TWOS * 4))
    model.add(layer(t.Concat, ["flat", "flat2", "dense"], ["all"]))
    model.add(layer(t.InnerProduct, ["all"], ["logit"], num_output=1))
    model.add(layer(t.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    return model


if what.startswith("table"):
    if what == "table of a share":
        data = {name: values[other::2] for name, values in data.items()}
    if what == "table, shuffled":
        reader["shuffle"] = hugectr.data.Shuffle(seed=1 + other)
    model = of_table(data, **reader)
elif what.startswith("files"):
    norm, folder = hugectr.DataReaderType_t.Norm, Path(sys.argv[2])
    changed = data | {"dense": data["dense"] + 1} if other else data
    first = files_of(changed if what == "files" else data, folder / "first")
    model = small(norm, first, replicated=True)
    if what == "files, restarted":
        assert model.train()
        model.set_source(files_of(changed, folder / "second"))
else:
    model = build(data, {}, vvgpu=[[0], [0]])
for _ in range(6):
    assert model.train()
print("trained", flush=True)
