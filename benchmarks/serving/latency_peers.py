# SPDX-License-Identifier: Apache-2.0
"""The peers of ``latency.py``: the same net in PyTorch or onnxruntime; prints one JSON line.

    python benchmarks/serving/latency_peers.py {torch,onnxruntime} [--rows N]

Threads are those of OMP_NUM_THREADS. It imports nothing of hugectr, which PYTHON need not have.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

BATCHES = (1, 32, 1024, 65_536)
SLOTS, DENSE, DIM, TOWER = 26, 13, 16, 400


def median_ms(call: Callable[[], object], batch: int) -> tuple[float, float]:
    """Median and ninth decile of the calls of about a second, in milliseconds."""
    for _ in range(3):
        call()
    times: list[float] = []
    end = time.perf_counter() + (1.0 if batch < 65_536 else 3.0)
    while time.perf_counter() < end or len(times) < 3:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return 1e3 * float(np.median(times)), 1e3 * float(np.quantile(times, 0.9))


def answer_turns(call_of: Callable[[int], Callable[[], object]]) -> None:
    """Time calls for whoever asks on standard input, a line ``batch seconds`` a turn.

    Each is answered by a line of JSON: least, first decile and median in ms.
    """
    calls: dict[int, Callable[[], object]] = {}
    print("ready", flush=True)
    for line in sys.stdin:
        batch, seconds = int(line.split()[0]), float(line.split()[1])
        call = calls.setdefault(batch, call_of(batch)) if batch not in calls else calls[batch]
        call()
        call()
        times: list[float] = []
        end = time.perf_counter() + seconds
        while not times or time.perf_counter() < end:
            begin = time.perf_counter()
            call()
            times.append(time.perf_counter() - begin)
        found = 1e3 * np.array([min(times), *np.quantile(times, [0.1, 0.5])])
        print(json.dumps(found.tolist()), flush=True)


def torch_call(rows: int, threads: int, device: str) -> Callable[[Any, Any], object]:
    """The net with nn.EmbeddingBag, one key a bag."""
    import torch
    from torch import nn

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)

    class DeepFM(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fm = nn.EmbeddingBag(SLOTS * rows, DIM, mode="sum", include_last_offset=True)
            self.wide = nn.EmbeddingBag(SLOTS * rows, 1, mode="sum", include_last_offset=True)
            widths = [SLOTS * DIM + DENSE, TOWER, TOWER, TOWER]
            layers: list[nn.Module] = []
            for n, m in itertools.pairwise(widths):
                layers += [nn.Linear(n, m), nn.ReLU()]
            self.deep = nn.Sequential(*layers, nn.Linear(TOWER, 1))

        def forward(self, keys: torch.Tensor, offsets: torch.Tensor, dense: torch.Tensor) -> Any:
            batch = dense.shape[0]
            vectors = self.fm(keys, offsets).view(batch, SLOTS, DIM)
            first = self.wide(keys, offsets).view(batch, SLOTS).sum(1, keepdim=True)
            total = vectors.sum(1)
            second = 0.5 * (total * total - (vectors * vectors).sum(1)).sum(1, keepdim=True)
            deep = self.deep(torch.cat([vectors.reshape(batch, -1), dense], 1))
            return torch.sigmoid(deep + second + first)

    model = DeepFM().eval().to(device)

    def call(keys: Any, dense: Any) -> object:
        offsets = torch.arange(keys.size + 1, device=device)
        inputs = (
            torch.from_numpy(keys.ravel()).to(device),
            offsets,
            torch.from_numpy(dense).to(device),
        )
        return model(*inputs).cpu().numpy()

    return call


def onnx_call(rows: int, threads: int) -> Callable[[Any, Any], object]:
    """The net as an ONNX graph, tables by Gather."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(1)
    constants: list[Any] = []

    def constant(name: str, values: Any) -> str:
        constants.append(numpy_helper.from_array(values, name))
        return name

    def weights(name: str, *shape: int) -> str:
        return constant(name, ((rng.random(shape, np.float32) - 0.5) * 0.1).astype(np.float32))

    axis1 = constant("axis1", np.array([1], np.int64))
    node = helper.make_node
    nodes = [
        node("Gather", [weights("fm", SLOTS * rows, DIM), "keys"], ["vectors"]),
        node("Gather", [weights("wide", SLOTS * rows, 1), "keys"], ["wides"]),
        node("ReduceSum", ["wides", axis1], ["first3"], keepdims=0),
        node("ReduceSum", ["vectors", axis1], ["total"], keepdims=0),
        node("Mul", ["total", "total"], ["squared"]),
        node("Mul", ["vectors", "vectors"], ["squares"]),
        node("ReduceSum", ["squares", axis1], ["sums"], keepdims=0),
        node("Sub", ["squared", "sums"], ["twice"]),
        node("ReduceSum", ["twice", axis1], ["pairs"], keepdims=1),
        node("Mul", ["pairs", constant("half", np.float32(0.5))], ["second"]),
        node(
            "Reshape",
            ["vectors", constant("flat_shape", np.array([-1, SLOTS * DIM], np.int64))],
            ["flat"],
        ),
        node("Concat", ["flat", "dense"], ["relu0"], axis=1),
    ]
    widths = [SLOTS * DIM + DENSE, TOWER, TOWER, TOWER, 1]
    for i in range(4):
        bottoms = [
            f"relu{i}",
            weights(f"w{i}", widths[i], widths[i + 1]),
            weights(f"b{i}", widths[i + 1]),
        ]
        nodes.append(node("Gemm", bottoms, [f"fc{i + 1}"]))
        nodes.append(node("Relu", [f"fc{i + 1}"], [f"relu{i + 1}"]))
    nodes.pop()  # the last is the logit's
    nodes += [
        node("Add", ["fc4", "second"], ["deep"]),
        node("Add", ["deep", "first3"], ["logit"]),
        node("Sigmoid", ["logit"], ["out"]),
    ]
    graph = helper.make_graph(
        nodes,
        "deepfm",
        [
            helper.make_tensor_value_info("keys", TensorProto.INT64, ["b", SLOTS]),
            helper.make_tensor_value_info("dense", TensorProto.FLOAT, ["b", DENSE]),
        ],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["b", 1])],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return lambda keys, dense: session.run(None, {"keys": keys, "dense": dense})


def samples(rows: int, batch: int) -> tuple[Any, Any]:
    """Keys (batch, slots) and dense features."""
    rng = np.random.default_rng(5)
    keys = rng.integers(0, rows, (batch, SLOTS)) + np.arange(SLOTS) * rows
    return keys, rng.random((batch, DENSE), np.float32)


def asked(call: Callable[[Any, Any], object], rows: int, batch: int) -> Callable[[], object]:
    """A call with samples of its own."""
    keys, dense = samples(rows, batch)
    return lambda: call(keys, dense)


def main() -> int:
    """Print the times of one peer."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("peer", choices=("torch", "onnxruntime"))
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--batches", type=int, nargs="+", default=list(BATCHES))
    parser.add_argument("--turns", action="store_true", help=argparse.SUPPRESS)
    a = parser.parse_args()
    threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
    if a.peer == "torch":
        call = torch_call(a.rows, threads, a.device)
    else:
        call = onnx_call(a.rows, threads)
    if a.turns:
        answer_turns(lambda batch: asked(call, a.rows, batch))
        return 0
    rng = np.random.default_rng(5)
    found = {}
    for batch in a.batches:
        keys = rng.integers(0, a.rows, (batch, SLOTS)) + np.arange(SLOTS) * a.rows
        dense = rng.random((batch, DENSE), np.float32)
        p50, p90 = median_ms(lambda keys=keys, dense=dense: call(keys, dense), batch)
        found[str(batch)] = {"ms": p50, "p90": p90}
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
