# SPDX-License-Identifier: Apache-2.0
"""The nets of ``examples/`` in PyTorch, on the same samples in the same order of batches.

Writes ``examples.json`` beside itself: what the example of each net prints, for three seeds, each
with first weights of its own (those of BST and DLRM are the examples': ``same_weights.py``). Run by
hand, ``python tests/py/references/examples.py [NAME ...]``, in an environment with torch and numpy;
``mmoe_census`` needs hugectr in it too; wdl, deepfm and dcn need ``examples/runs/planted``, which
``python wdl.py`` writes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2] / "examples"))

import click_nets as clicking  # noqa: E402
import sequence_nets as reading  # noqa: E402
from generated import (  # noqa: E402
    DENSE,
    FIELDS,
    Arrays,
    auc,
    clicks,
    held_out,
    histories,
    liked,
    ranked,
    ratings,
    two_tasks,
    visits,
)
from parts import Batch  # noqa: E402
from rules import Adam  # noqa: E402

BATCH = 1024
PLANTED = HERE.parents[2] / "examples" / "runs" / "planted"


def planted() -> Arrays:
    """What ``examples/data.py`` has written: framed Norm records of one label, five numbers and
    eight slots of one key each."""
    slots = ("slots", [("nnz", "<i4"), ("key", "<u4")], FIELDS)
    dense = ("dense", "<f4", DENSE)
    record = np.dtype([("length", "<i4"), ("label", "<f4"), dense, slots, ("sum", "u1")])
    names = ["train_0.data", "train_1.data", "test_0.data"]
    parts = [np.fromfile(PLANTED / name, record, offset=69) for name in names]
    whole = np.concatenate(parts)
    assert (whole["slots"]["nnz"] == 1).all()
    return {
        "label": whole["label"].copy(),
        "dense": whole["dense"].copy(),
        "keys": whole["slots"]["key"].astype(np.int64),
    }


def census() -> Arrays:
    """The Census rows that come with hugectr, as the examples read them."""
    from real import two_tasks_of

    return two_tasks_of([])


def experts(shared: int, own: int) -> Callable[[], nn.Module]:
    """Experts on the generated clicks."""
    return lambda: clicking.Experts(shared, own)


#: Net, samples, learning rate, steps: those of the example.
NETS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Arrays], float, int]] = {
    "bst": (reading.Bst, lambda: histories(671744, groups=6), 0.01, 640),
    "criteo": (clicking.Criteo, lambda: clicks(344064, pairs=0.1), 0.003, 320),
    "criteo_multi_slots": (clicking.MultiSlots, clicks, 0.003, 200),
    "dcn": (clicking.Dcn, planted, 0.005, 512),
    "dcnv2": (clicking.Dcnv2, clicks, 0.003, 200),
    "deepfm": (clicking.DeepFm, planted, 0.005, 512),
    "din": (reading.Din, lambda: histories(671744), 0.02, 640),
    "dlrm": (clicking.Dlrm, planted, 0.02, 512),
    "gmf": (clicking.Gmf, ratings, 0.01, 400),
    "history": (reading.History, lambda: histories(344064), 0.003, 320),
    "mmoe": (experts(3, 0), two_tasks, 0.003, 300),
    "mmoe_census": (lambda: clicking.Experts(3, 0, 12, 6, 2000), census, 0.003, 300),
    "ncf": (clicking.Ncf, ratings, 0.005, 400),
    "neumf": (clicking.NeuMf, ratings, 0.005, 400),
    "ple": (experts(2, 2), two_tasks, 0.003, 300),
    "sasrec": (reading.SasRec, visits, 0.01, 400),
    "two_towers": (clicking.TwoTowers, ratings, 0.01, 600),
    "wdl": (clicking.Wdl, planted, 0.005, 512),
    "xdeepfm": (clicking.XDeepFm, clicks, 0.003, 200),
}
#: The step after which the learning rate falls to 0, linearly.
DECAYS = {"bst": 400, "din": 400}
#: The steps in which it rises to its full height, linearly.
WARM_UPS = {"bst": 100}
#: What figures are called of nets with two tasks.
TASKS = {
    "mmoe": ("click", "purchase"),
    "ple": ("click", "purchase"),
    "mmoe_census": ("income", "never_married"),
}


def loss_of(logits: Tensor, label: Tensor) -> Tensor:
    """Mean over the samples of the sum over their labels; those of -1 are not known."""
    each = nn.functional.binary_cross_entropy_with_logits(logits, label, reduction="none")
    return (each * (label >= 0)).sum(1).mean()


def trained(name: str, seed: int) -> dict[str, float]:
    """The figures that the example of a net prints, from first weights of the seed's own."""
    make, draw, *_ = NETS[name]
    torch.manual_seed(seed)
    arrays = draw()
    return learned(name, make(), arrays)


def learned(name: str, net: nn.Module, arrays: Arrays) -> dict[str, float]:
    """The figures after the steps of the example of that name, in the dtype of the net."""
    _, _, lr, steps = NETS[name]
    samples = {key: torch.from_numpy(value) for key, value in arrays.items()}
    dtype = next(net.parameters()).dtype
    samples = {k: v.to(dtype) if v.is_floating_point() else v for k, v in samples.items()}
    tables = [m.weight for m in net.modules() if isinstance(m, nn.Embedding)]
    others = [p for p in net.parameters() if all(p is not t for t in tables)]
    rules: list[torch.optim.Optimizer] = [
        torch.optim.SparseAdam(tables, lr, eps=1e-7),
        Adam(others, lr, eps=1e-7),
    ]
    if name == "dlrm":
        rules = [torch.optim.Adagrad([*tables, *others], lr, eps=1e-7)]
    held = held_out(len(arrays["label"]))
    trains = len(arrays["label"]) - held
    for step in range(steps):
        at = torch.arange(step * BATCH, (step + 1) * BATCH) % trains
        batch = {key: value[at] for key, value in samples.items() if len(value) == trains + held}
        loss = loss_of(net(batch), batch["label"].reshape(BATCH, -1))
        for rule in rules:
            rule.zero_grad()
            for group in rule.param_groups:
                group["lr"] = lr * _share(name, step + 1, steps)
        loss.backward()
        for rule in rules:
            rule.step()
    net.eval()
    with torch.no_grad():
        return figures(name, net, arrays, {key: value[trains:] for key, value in samples.items()})


def _share(name: str, step: int, steps: int) -> float:
    """Of the learning rate, that a step has; the first is 1."""
    warm_up, decay_start = WARM_UPS.get(name, 1), DECAYS.get(name, steps)
    if step <= warm_up:
        return step / warm_up
    return 1.0 if step <= decay_start else (steps - step) / (steps - decay_start)


def figures(name: str, net: nn.Module, arrays: Arrays, held: Batch) -> dict[str, float]:
    """AUC (of two tasks also of each), and HitRate and NDCG at 10 where the example has them."""
    label = held["label"].reshape(len(held["label"]), -1).numpy()
    score = net(held).numpy()
    if isinstance(net, reading.SasRec):
        last = torch.arange(len(label)), held["length"] - 1
        scores = net.states(held)[last] @ net.rows.emb.weight[:-1].T
        rates = ranked(scores.numpy(), held["following"][last].numpy())
        area = auc(label[label >= 0], score[label >= 0])
        return {"AUC": area, "HitRate@10": rates[0], "NDCG@10": rates[1]}
    areas = [auc(*task) for task in zip(label.T, score.T, strict=True)]
    found = {"AUC": float(np.mean(areas)), **dict(zip(TASKS.get(name, ()), areas, strict=False))}
    if isinstance(net, clicking.Ncf):
        scores = liked(arrays, lambda p: net(_pairs(p)).numpy())
        found |= dict(zip(("HitRate@10", "NDCG@10"), ranked(*scores), strict=True))
    return found


def _pairs(pairs: Any) -> Batch:
    return {"user": torch.from_numpy(pairs[:, 0]), "item": torch.from_numpy(pairs[:, 1])}


def main() -> None:
    torch.set_num_threads(1)
    file = HERE / "examples.json"
    for name in sys.argv[1:] or [name for name in NETS if name not in ("bst", "dlrm")]:
        seeds = [trained(name, seed) for seed in (1, 2, 3)]
        of_net = {figure: [round(one[figure], 5) for one in seeds] for figure in seeds[0]}
        print(name, of_net, flush=True)
        found = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps(dict(sorted({**found, name: of_net}.items())), indent=1) + "\n")


if __name__ == "__main__":
    main()
