# SPDX-License-Identifier: Apache-2.0
"""Nets of ``examples/`` in float64 PyTorch, from the first weights of the examples themselves.

BST and DLRM end further apart from different first weights than an area may be off; from the same
ones they end at the same area. Writes ``same_weights.json`` beside itself: what the net finds from
the first weights of each ``--seed`` of its example. Prints beside it what it finds in float32, and
what the example does. Run by hand, ``python tests/py/references/same_weights.py [NAME ...]``, in an
environment with torch and hugectr.
"""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

import hugectr
from examples import NETS, learned

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[2] / "examples"
#: Of each net, the modules that hold the weights of the example's layers.
MODULES: dict[str, dict[str, str]] = {
    "bst": {
        **{name: name for name in ("steps", "q", "k", "v", "norm1", "wide", "narrow", "norm2")},
        "deep_fc0": "deep.0",
        "deep_fc1": "deep.2",
        "deep_out": "deep.4",
    },
    "dlrm": {
        **{f"bottom_fc{i}": f"bottom.{2 * i}" for i in range(3)},
        "top_fc0": "top.0",
        "top_fc1": "top.2",
        "logit": "top.4",
    },
}
#: What PyTorch calls a layer's weights.
KINDS = {"weight": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}
#: Steps after which all keys have been seen.
SEEN = 256

Weights = dict[str, npt.NDArray[Any]]


class _Compiled(Exception):
    """Thrown where the example would train: its model."""


def _stop(model: hugectr.Model, **_: Any) -> None:
    raise _Compiled(model)


def compiled(name: str, seed: int) -> hugectr.Model:
    """The model of an example before its first step."""
    for each in ("arguments", "data", "training"):  # they have read the arguments of the last one
        sys.modules.pop(each, None)
    with (
        mock.patch.object(sys, "argv", [name, "--seed", str(seed)]),
        mock.patch.object(hugectr.Model, "fit", _stop),
    ):
        try:
            runpy.run_path(str(EXAMPLES / f"{name}.py"))
        except _Compiled as found:
            model: hugectr.Model = found.args[0]
            return model
    raise RuntimeError(f"{name}.py has not trained")


def first_weights(name: str, seed: int) -> Weights:
    """The first weights of an example by name; ``keys`` (n) and ``rows`` (n, d) of its table."""
    model = compiled(name, seed)
    found = {each: np.array(model.dense_weight(each)) for each in model.dense_weight_names()}
    model.freeze_embedding()
    model.freeze_dense()
    for _ in range(SEEN):
        model.train()
    table = hugectr.Model.table(model, model.embeddings[0].sparse_embedding_name)
    return {**found, "keys": np.array(table.keys, np.int64), "rows": np.array(table.vectors)}


def net_of(name: str, weights: Weights) -> nn.Module:
    """The net with these weights, all of them."""
    net = NETS[name][0]()
    left = dict(net.named_parameters())
    for each, value in weights.items():
        if each not in ("keys", "rows"):
            layer, kind = each.split(".")
            parameter = left.pop(f"{MODULES[name][layer]}.{KINDS[kind]}")
            # (in, out); Interaction ends with a column of zeros that the other net does not have
            value = value.T[:, : parameter.shape[1]] if value.ndim == 2 else value
            parameter.data.copy_(torch.from_numpy(np.ascontiguousarray(value)))
    (table,) = left.values()
    table.data[torch.from_numpy(weights["keys"])] = torch.from_numpy(weights["rows"])
    return net


def printed(name: str, seed: int) -> str:
    """The AUC that the example prints."""
    command = [sys.executable, f"{name}.py", "--seed", str(seed)]
    done = subprocess.run(command, cwd=EXAMPLES, capture_output=True, text=True, check=True)
    found = re.search(r"evaluation AUC (0\.\d+)", done.stdout)
    assert found, done.stdout
    return found[1]


def main() -> None:
    torch.set_num_threads(1)
    file = HERE / "same_weights.json"
    for name in sys.argv[1:] or list(MODULES):
        arrays = NETS[name][1]()
        areas = {}
        for seed in (1, 2, 3):
            weights = first_weights(name, seed)
            double, single = (
                learned(name, net_of(name, weights).to(dtype), arrays)["AUC"]
                for dtype in (torch.float64, torch.float32)
            )
            areas[str(seed)] = round(double, 5)
            print(name, seed, f"{double:.5f}, float32 {single:.5f};", "the example", end=" ")
            print(printed(name, seed), flush=True)
        found = json.loads(file.read_text()) if file.exists() else {}
        found[name] = {"AUC": areas}
        file.write_text(json.dumps(dict(sorted(found.items())), indent=1) + "\n")


if __name__ == "__main__":
    main()
