# SPDX-License-Identifier: Apache-2.0
"""In each of two processes: calls that differ are refused on both, and nothing has happened."""

import sys

import numpy as np
import pytest
from oracle.streaming_net import BATCH, DIM, build, stream

import hugectr
from hugectr import callbacks, processes

group = processes.current()
rank = group.rank
data = stream(np.random.default_rng(3), 4)
model = build(data, {}, vvgpu=[[0], [0]])
for _ in range(3):
    assert model.train()
network = model.session.network
weights, keys = np.array(network.dense_weights()), np.arange(10)
folder = sys.argv[1]


class Own(callbacks.Callback):
    """Only process 1 has it."""


def samples(begin, count):
    return {name: data[name][begin : begin + count] for name in ("dense", "ones", "twos")}


def rows(first):
    return "one", keys + first, np.ones((10, DIM), np.float32)


def fit(**more):
    model.fit(**{"max_iter": 4, "display": 1, "eval_interval": 0, "snapshot": 0} | more)


before = model.table_stats(of_job=True)
for call, said in (
    (lambda: model.set_learning_rate(0.1 + rank), "Model.set_learning_rate: lr is 0.1 on process"),
    (lambda: model.reset_learning_rate_scheduler(0.1, 1 + rank), "warmup_steps is 1 on process 0"),
    (lambda: model.freeze_embedding(("one", "two")[rank]), r"names is \['one'\] on process 0"),
    (lambda: model.unfreeze_embedding([("one", "two")[rank]]), "Model.unfreeze_embedding: names"),
    (lambda: model.set_dense_weights(weights * (1 + rank)), "values is one array of float32"),
    (lambda: model.set_table_rows(*rows(100 * rank)), "Model.set_table_rows: keys is"),
    (lambda: model.embedding("one", keys + rank), "Model.embedding: keys is"),
    (lambda: model.embedding("one", keys[: 5 + rank]), "Model.embedding: keys is"),
    (lambda: model.nearest("one", 1 + rank), "Model.nearest: key is"),
    (lambda: model.predict(samples(10 * rank, 20)), "data is one 20 rows on process 0 and another"),
    (lambda: model.predict(samples(0, 20 + 60 * rank)), "data is 20 rows on process 0 and 80 rows"),
    (lambda: model.predict(samples(0, 20 * rank)), "data is 0 rows on process 0 and 20 rows"),
    (lambda: model.predict(samples(0, 5), BATCH - rank), "batch_size is 24 on process 0"),
    (lambda: model.save(f"{folder}/{rank}"), "Model.save: path is"),
    (lambda: model.save(folder, delta=rank == 1), "Model.save: delta is False on process 0"),
    (lambda: model.save(folder, background=rank == 1), "background is False on process 0"),
    (lambda: model.resume(f"{folder}/{rank}"), "Model.resume: path is"),
    (lambda: model.load_weights(f"{folder}/{rank}"), "Model.load_weights: path is"),
    (lambda: fit(max_iter=4 + rank), "Model.fit: max_iter is 4 on process 0 and 5 on process 1"),
    (lambda: fit(display=2 + rank), "Model.fit: display is 2"),
    (lambda: fit(checkpoint_dir=folder * rank), "checkpoint_dir is '' on process 0"),
    (lambda: fit(callbacks=[Own()] * rank), r"callbacks is \[\] on process 0 and \['Own'\]"),
):
    with pytest.raises(hugectr.InvalidArgument, match=said):
        call()
    assert model.table_stats(of_job=True) == before
    assert model.frozen() == set()
    np.testing.assert_array_equal(network.dense_weights(), weights)

# What a process prints, and how it spells the same, is its own.
model.set_table_rows("one", (keys, keys.tolist())[rank], np.ones((10, DIM), np.float32))
assert (model.embedding("one", (keys, keys.astype(np.int32))[rank]) == 1).all()
assert len(model.predict(samples(0, 60))) == 60
assert len(model.predict(samples(0, 0))) == 0
fit(verbose=2 * rank, progress=False)
model.freeze_dense()
assert model.train()
sums = group.all_gather(np.array(network.dense_weights()).tobytes())
assert sums[0] == sums[1]
print("both", flush=True)

# A schedule of one's own is compared where the loss is read, after its step.
with pytest.raises(
    hugectr.InvalidArgument, match=r"the learning rate of step 10 is 0\.05 on process"
):
    fit(callbacks=[callbacks.LearningRate(lambda step: 1.0 + rank * (step > 8))])

# Which call it is, where they are different ones: the job ends.
with pytest.raises(hugectr.CommError) as ended:
    (lambda: model.save(folder), lambda: model.evict("one", keys=[1]))[rank]()
assert "process 0 is at Model.save, process 1 at Model.evict" in str(ended.value)
print("ended", flush=True)
