# SPDX-License-Identifier: Apache-2.0
"""The AUC that MLPerf's DLRM-DCNv2 reaches on a planted signal, beside the best there is.

    python benchmarks/models/dcnv2_auc.py --raw FOLDER --scale 0.01 --samples 30000000 \\
        --lrs 0.005 0.005:decay 0.002:decay 0.001:decay

Samples are those of dcnv2_samples.py, each trained on once, in files that other processes write
meanwhile; ``--lrs`` trains one model a rate on the same files, one after the other. After each file
a JSON line goes to stderr, at the end one to stdout: the AUC on held-out samples, the AUC of the
logits that their labels were drawn from (the ceiling), and what of those logits the model has: a
least-squares fit of its own to their sum of weights and to each pair's products (1: learned), and
the variance of the rest. The other arguments are those of dcnv2_mlperf.py.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from dcnv2_mlperf import arguments, make_model, say, train, work_of
from dcnv2_raw import Planted, RawWriter, finish
from dcnv2_samples import Samples, make_samples, table_rows

import hugectr
from hugectr.base.log import set_level


def learned(model: hugectr.Model, samples: Samples) -> dict[str, Any]:
    """What the model's logits have of those the labels were drawn from."""
    found = model.predict(samples.to_memory())
    share = np.clip(np.asarray(found, np.float64).reshape(-1), 1e-7, 1 - 1e-7)
    logit, products = np.log(share / (1.0 - share)), samples.products
    columns = np.column_stack([np.ones(len(logit)), samples.logit - products.sum(axis=1), products])
    fit, *_ = np.linalg.lstsq(columns, logit, rcond=None)
    return {
        "weights": round(fit[1], 3),
        "products": [round(c, 3) for c in fit[2:]],
        "rest_variance": round(float((logit - columns @ fit).var()), 4),
        "variance": round(float(samples.logit.var()), 3),
    }


class Learner:
    """A model that trains on one file after the other.

    Parameters
    ----------
    a : Namespace
    rate : str
        The learning rate, ``"0.005"``, or one that falls to 0 in the last half of the samples,
        linearly from file to file, ``"0.005:decay"``.
    held_out : Path
        A Raw file of ``a.eval_samples``.
    """

    def __init__(self, a: argparse.Namespace, rate: str, held_out: Path) -> None:
        self.a, self.rate, self.held_out = a, rate, held_out
        text, _, self.decay = rate.partition(":")
        self.lr = float(text)
        self.model: hugectr.Model | None = None
        self.curve: list[float] = []
        self.seconds = 0.0

    def learn(self, file: Path, done: float) -> None:
        """Trains on a file, before which a share ``done`` of the samples was."""
        source, held_out = str(file), str(self.held_out)
        if self.model is None:
            self.model = make_model(self.a, source, held_out, self.a.eval_samples)
        else:
            self.model.set_source(source, held_out)
        left = min(1.0, 2.0 - 2.0 * done) if self.decay else 1.0
        self.model.set_learning_rate(self.lr * left)
        self.seconds += train(self.model, self.a.part // self.a.batch)
        self.curve.append(round(self.model.evaluate()["AUC"], 5))

    def found(self, samples: Samples) -> dict[str, Any]:
        """At the end."""
        assert self.model is not None
        best = samples.ceiling
        return {
            "lr": self.rate,
            "auc": self.curve[-1],
            "ceiling": round(best, 5),
            "below": round(best - self.curve[-1], 5),
            "learned": learned(self.model, samples),
            "loss": round(self.model.get_current_loss(), 5),
            "train_s": round(self.seconds, 1),
            "curve": self.curve,
        }


def learn_all(a: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """What the models of all learning rates reach, trained in turns on the same files."""
    rows = table_rows(a.scale, a.max_rows)
    parts = -(-a.samples // a.part)
    a.samples = a.part  # of a file, for the reader
    files = [folder / f"{number}.raw" for number in range(parts)]
    held_out = folder / "held_out.raw"
    writer = RawWriter(Planted(rows, a.alpha, a.seed), a.processes)
    try:
        waiting = [writer.start(file, i, a.part) for i, file in enumerate(files[: a.ahead])]
        samples = make_samples(a.eval_samples, rows, a.alpha, [a.seed, 1 << 40])
        samples.write_raw(held_out)
        say(a, ceiling=round(samples.ceiling, 5), eval_samples=a.eval_samples, files=parts)
        learners = [Learner(a, rate, held_out) for rate in a.lrs]
        for number, file in enumerate(files):
            begin = time.perf_counter()
            finish(waiting.pop(0))
            waited = round(time.perf_counter() - begin, 2)
            following = number + a.ahead
            if following < parts:
                waiting.append(writer.start(files[following], following, a.part))
            for learner in learners:
                learner.learn(file, number / parts)
            below = {each.rate: round(samples.ceiling - each.curve[-1], 5) for each in learners}
            say(a, samples=(number + 1) * a.part, below=below, waited_s=waited)
            file.unlink()
        return [learner.found(samples) for learner in learners]
    finally:
        writer.close()


def main() -> int:
    """One JSON line."""
    parser = arguments()
    parser.set_defaults(alpha=1.2, batch=2048)
    parser.add_argument("--lrs", nargs="+", default=["0.005"], help="0.005, or 0.005:decay")
    parser.add_argument("--part", type=int, default=1 << 20, help="samples of a file, about")
    parser.add_argument("--ahead", type=int, default=3, help="files being written")
    parser.add_argument("--eval-samples", type=int, default=1 << 17)
    a = parser.parse_args()
    a.begin = time.perf_counter()
    set_level(3)
    a.part -= a.part % a.batch
    if a.raw:
        a.raw.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=a.raw) as folder:
        runs = learn_all(a, Path(folder))
    found = {
        "work": work_of(a),
        "alpha": a.alpha,
        "samples": len(runs[0]["curve"]) * a.part,
        "runs": runs,
    }
    print(json.dumps({**found, "seconds": round(time.perf_counter() - a.begin, 1)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
