# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""What every exported PyTorch module begins with, below the cut: it is copied, never imported."""

# --- cut ---
import importlib.util
import json
from itertools import pairwise
from pathlib import Path  # noqa: F401 - what is written below uses it

import numpy as np
import torch
from torch.nn import functional


def softplus(x):
    """log(1 + e^x) without overflow, and without the straight line of torch's above 20."""
    return x.clamp(min=0) + torch.log1p(torch.exp(-x.abs()))


def batch_normed(x, eps):
    """Columns of the last dimension to mean 0 and deviation 1 over all that x has."""
    axes = tuple(range(x.dim() - 1))
    centred = x - x.mean(axes)
    return centred / (centred.square().mean(axes) + eps).sqrt()


def gru(x, weight, recurrent, bias):
    """States (batch, t, h) of one layer whose bias is that of the inputs; gates r, z, n."""
    weights = [weight, recurrent, bias, torch.zeros_like(bias)]
    before = x.new_zeros(1, x.shape[0], recurrent.shape[1])
    return torch.gru(x, before, weights, True, 1, 0.0, False, False, True)[0]


class Table(torch.nn.Module):
    """Keys of each input, (batch, slots[, most]), padded with -1, -> vectors (batch, slots, d)."""

    def __init__(self, described, padding, key, vector, slot=None):
        super().__init__()
        self.mean, self.padding = described["combiner"] == "mean", padding
        self.positions = described["positions"]  # of each slot; empty: they are pooled
        self.ranges = None  # of rows, a slot; none: a row is of a key alone
        if slot is not None:
            numbers = np.arange(described["slots"] + 1, dtype=np.uint64)
            bounds = np.searchsorted(slot, numbers).tolist()
            self.ranges = list(pairwise(bounds))
        self.register_buffer("keys", torch.from_numpy(np.array(key)))
        nothing = np.zeros((1, described["size"]), np.float32)  # of keys without a row
        whole = torch.from_numpy(np.concatenate([vector, nothing]))
        self.vectors = torch.nn.Embedding.from_pretrained(whole, freeze=False, padding_idx=len(key))

    def rows(self, keys, first, last):
        """Row numbers of keys among rows first .. last - 1; that of zeros where there is none."""
        none = torch.full_like(keys, len(self.keys))
        if first == last:
            return none
        own = self.keys[first:last]
        at = torch.searchsorted(own, keys.contiguous()).clamp(max=last - first - 1)
        return torch.where(own[at] == keys, at + first, none)

    def forward(self, *inputs):
        parts, first = [], 0
        for keys in inputs:
            asked = keys.reshape(keys.shape[0], keys.shape[1], -1)
            parts.append(self.combined(asked, first))
            first += keys.shape[1]
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1)

    def combined(self, asked, first):
        """Vectors of keys (batch, slots, most) of the slots from one on."""
        end = first + asked.shape[1]
        if self.ranges is None:
            rows = self.rows(asked, 0, len(self.keys))
        else:
            own = enumerate(self.ranges[first:end])
            rows = torch.cat([self.rows(asked[:, i : i + 1], *r) for i, r in own], 1)
        if self.positions:
            own = self.positions[first:end]
            rows = functional.pad(rows, (0, max(own)), value=len(self.keys))
            return self.vectors(torch.cat([rows[:, i, :n] for i, n in enumerate(own)], 1))
        total = self.vectors(rows).sum(2)
        if not self.mean:
            return total
        return total / (asked != self.padding).sum(2, keepdim=True).clamp(min=1)


class Model(torch.nn.Module):
    """Dense features (float32) and keys (int64) by name -> outputs by name."""

    def __init__(self, network, tables, described, lengths, padding):
        super().__init__()
        self.network, self.dense = network, described["dense"]
        self.batch = described["batch"]  # where it picks rows by their place; none: any number
        self.lengths, self.padding = lengths, padding
        self.names = list(tables)
        self.tables = torch.nn.ModuleList([module for _, module in tables.values()])
        self.asked = [keys for keys, _ in tables.values()]

    def forward(self, inputs):
        for name, values in inputs.items():
            if self.batch is not None and len(values) != self.batch:
                raise ValueError(f"{name!r} has {len(values)} rows, must have {self.batch}")
        values = {} if self.dense is None else {self.dense: inputs[self.dense]}
        for name, asked, table in zip(self.names, self.asked, self.tables, strict=True):
            values[name] = table(*(inputs[keys] for keys in asked))
        for name, keys in self.lengths.items():
            asked = inputs[keys]
            there = (asked.reshape(*asked.shape[:2], -1) != self.padding).sum(2)
            values[name] = there.float()
        return self.network(values)


def checked_tables(folder):
    """Tables of a folder, read and compared with their description by its ``reader.py``."""
    spec = importlib.util.spec_from_file_location("reader_of_tables", folder / "reader.py")
    reader = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reader)
    return reader.Tables(folder)


def read_network(folder, make_network):
    """What ``network.json`` says, and the network with its weights."""
    told, kept = folder / "network.json", folder / "weights.npz"
    try:
        described = json.loads(told.read_text(encoding="utf-8"))
        with np.load(kept, allow_pickle=False) as weights:
            own = [weights[f"w{i}"] for i in range(len(described["weights"]))]
        return {name: described[name] for name in ("dense", "batch")}, make_network(own)
    except Exception as error:  # of JSON, zip, NumPy and torch, each its own
        why = f"{type(error).__name__}: {error}"
        raise ValueError(
            f"{told} and {kept} do not make the network ({why}): copy the export again, or export "
            "the model again"
        ) from error


def read_model(folder, make_network):
    """The model of a folder, in evaluation mode."""
    described, network = read_network(folder, make_network)
    told = checked_tables(folder)
    tables = {}
    for name, table in told.tables.items():
        asked = [one["name"] for one in table["inputs"]]
        tables[name] = (asked, Table(table, told.padding, **told.arrays(name)))
    return Model(network, tables, described, told.lengths, told.padding).eval()
