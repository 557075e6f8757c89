# SPDX-License-Identifier: Apache-2.0
"""What products in fp8 cost in AUC: against bfloat16 from the same seeds, paired.

    python benchmarks/models/fp8_auc.py [--cases adult planted] [--seeds 20]

``adult`` is the demo's Wide & Deep on the Adult data, ``planted`` a DLRM on samples with a hidden
signal, other samples each seed. A pair has the same data, order, first weights and dropout; what
differs is the numbers that linear layers multiply where they train. One JSON line a case: both AUCs
of each seed, the mean difference and its standard error.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from ctr_models import layer, precision, tower

import hugectr
from hugectr.base.log import set_level
from hugectr.data.adult import write_adult_norm
from hugectr.data.planted import make_planted
from hugectr.demo.training import train as train_demo
from hugectr.demo.wide_and_deep import wide_and_deep

BATCH, SLOTS, ROWS, DENSE, DIM = 1024, 6, 20, 4, 32


def adult(a: argparse.Namespace) -> Callable[[str, int], float]:
    """The AUC of the demo after ``a.epochs`` epochs, of a precision and a seed."""
    files = write_adult_norm(Path(a.folder) / "adult")
    names = {"bf16": "bfloat16", "fp8": "fp8"}

    def run(kind: str, seed: int) -> float:
        model = wide_and_deep(
            files, epochs=a.epochs, device=a.device, seed=seed, precision=names[kind]
        )
        return train_demo(model, files, a.epochs).auc[-1]

    return run


def planted(a: argparse.Namespace) -> Callable[[str, int], float]:
    """The AUC of a DLRM after one pass over ``a.samples`` samples.

    The rate falls until the model stands: on the way up a seed's AUC moves by hundredths, whatever
    the precision.
    """

    def run(kind: str, seed: int) -> float:
        held_out = 1 << 15
        data = make_planted(
            a.samples + held_out, [ROWS] * SLOTS, dense_dim=DENSE, strength=3.0, seed=seed
        )
        parts = data.part(0, a.samples), data.part(a.samples, a.samples + held_out)
        solver = hugectr.CreateSolver(
            batchsize=BATCH,
            batchsize_eval=BATCH,
            max_eval_batches=held_out // BATCH,
            lr=0.005,
            decay_start=a.samples // BATCH // 3,
            decay_steps=a.samples // BATCH * 2 // 3,
            decay_power=1.0,
            end_lr=1e-5,
            seed=seed,
            device=a.device,
            i64_input_key=True,
            **precision(kind),
        )
        reader = hugectr.DataReaderParams(
            hugectr.DataReaderType_t.Norm,
            source=parts[0].to_memory("keys"),
            eval_source=parts[1].to_memory("keys"),
        )
        adam = hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local)
        model = hugectr.Model(solver, reader, adam)
        keys = hugectr.DataReaderSparseParam("keys", 1, True, SLOTS)
        model.add(hugectr.Input(1, "label", DENSE, "dense", [keys]))
        table = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
        model.add(hugectr.SparseEmbedding(table, 0, DIM, "sum", "emb", "keys"))
        bottom = tower(model, "bottom", "dense", (64, DIM))
        pairs = layer(model, "Interaction", [bottom, "emb"], "pairs")
        top = tower(model, "top", pairs, (128, 64))
        layer(model, "InnerProduct", [top], "logit", num_output=1)
        layer(model, "BinaryCrossEntropyLoss", ["logit", "label"], "loss")
        model.compile()
        schedule = model.get_learning_rate_scheduler()
        for _ in range(a.samples // BATCH):
            model.set_learning_rate(schedule.get_next())
            model.train()
        return float(model.evaluate()["AUC"])

    return run


CASES = {"adult": adult, "planted": planted}


def run_case(name: str, a: argparse.Namespace) -> dict[str, Any]:
    """Both precisions on every seed."""
    run = CASES[name](a)
    begin = time.perf_counter()
    found: dict[str, list[float]] = {"bf16": [], "fp8": []}
    for seed in range(1, a.seeds + 1):
        for kind, aucs in found.items():
            aucs.append(round(run(kind, seed), 6))
        print(name, seed, {kind: aucs[-1] for kind, aucs in found.items()}, file=sys.stderr)
    difference = np.array(found["fp8"]) - np.array(found["bf16"])
    return {
        "case": name,
        "seeds": a.seeds,
        "auc": found,
        "mean_auc": {kind: round(float(np.mean(aucs)), 6) for kind, aucs in found.items()},
        "mean_difference": round(float(difference.mean()), 6),
        "standard_error": round(float(difference.std(ddof=1) / np.sqrt(a.seeds)), 6),
        "seeds_differ_by": round(float(np.std(found["bf16"], ddof=1)), 6),
        "device": a.device,
        "work": f"{a.epochs} epochs"
        if name == "adult"
        else f"{a.samples} samples of {SLOTS} slots",
        "seconds": round(time.perf_counter() - begin, 1),
    }


def main() -> int:
    """Run the cases; one JSON line each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--seeds", type=int, default=20, help="2 or more")
    parser.add_argument("--epochs", type=int, default=12, help="of adult")
    parser.add_argument("--samples", type=int, default=1 << 20, help="of planted")
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--out", type=Path, help="the lines are written there too")
    a = parser.parse_args()
    set_level(3)
    lines = []
    with tempfile.TemporaryDirectory() as a.folder:
        for name in a.cases:
            lines.append(json.dumps(run_case(name, a)))
            print(lines[-1], flush=True)
    if a.out:
        a.out.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
