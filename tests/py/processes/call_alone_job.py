# SPDX-License-Identifier: Apache-2.0
"""A job of which process 0 alone makes a call of all: call_alone_job.py WHAT."""

import sys

import numpy as np
from oracle.streaming_net import build, stream

from hugectr import CommError, processes

what = sys.argv[1]
model = build(stream(np.random.default_rng(3), 4), {}, vvgpu=[[0], [0]])
assert model.train()
weights = np.array(model.session.network.dense_weights())
calls = {
    "rate": lambda: model.set_learning_rate(0.5),
    "weights": lambda: model.set_dense_weights(2 * weights),
    "frozen": model.freeze_dense,
    "loss": model.get_current_loss,
    "losses": model.get_current_losses,
    "metrics": model.get_eval_metrics,
}
if processes.current().rank == 0:
    try:
        calls[what]()
    except CommError as error:
        print("alone in", error, flush=True)
        raise
for _ in range(3):
    assert model.train()
model.get_current_loss()
print("trained", flush=True)
