# SPDX-License-Identifier: Apache-2.0
"""What a graph file with the weights of the original layout predicts, in float64 NumPy alone.

Nothing of the package is used: the file of the graph, those of the weights and those of the data
are read as the original describes them.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq


def norm_samples(file_list, count):
    """Dense features (n, dense) and the keys of every slot of the first samples of a Norm set."""
    dense, keys = [], []
    for path in Path(file_list).read_text().split()[1:]:
        data = Path(path).read_bytes()
        head = struct.unpack_from("<8q", data, 4)
        at = 4 + 64 + 1
        for _ in range(head[1]):
            at += 4
            dense.append(np.frombuffer(data, "<f4", head[3], at + 4 * head[2]))
            at += 4 * (head[2] + head[3])
            slots = []
            for _ in range(head[4]):
                (nnz,) = struct.unpack_from("<i", data, at)
                slots.append(np.frombuffer(data, "<u4", nnz, at + 4))
                at += 4 + 4 * nnz
            keys.append(slots)
            at += 1
    return np.array(dense[:count], np.float64), keys[:count]


def parquet_samples(file_list, count, labels, dense, sizes):
    """The same of a Parquet set, whose keys count on over the slots."""
    offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    numbers, keys = [], []
    for path in Path(file_list).read_text().split()[1:]:
        columns = [column.to_pylist() for column in pq.read_table(path).columns]
        for row in zip(*columns, strict=True):
            numbers.append(row[labels : labels + dense])
            slots = zip(row[labels + dense :], offsets, strict=True)
            keys.append([np.atleast_1d(own) + offset for own, offset in slots])
    return np.array(numbers[:count], np.float64).reshape(count, dense), keys[:count]


class Weights:
    """The dense weights, taken layer by layer."""

    def __init__(self, file):
        self.values, self.at = np.fromfile(file, "<f4").astype(np.float64), 0
        self.statistics = []
        if Path(f"{file}.ntp.json").exists():
            self.statistics = json.loads(Path(f"{file}.ntp.json").read_text())["layers"]

    def take(self, *shape):
        first, self.at = self.at, self.at + int(np.prod(shape))
        return self.values[first : self.at].reshape(shape)


def _inner_product(weights, layer, x):
    out = layer["fc_param"]["num_output"]
    return x @ weights.take(x.shape[1], out) + weights.take(out)


def _multi_cross(weights, layer, x):
    width, rank, y = x.shape[1], layer["mc_param"].get("projection_dim", 0), x
    for _ in range(layer["mc_param"]["num_layers"]):
        if rank:
            u, v = weights.take(width, rank), weights.take(rank, width)
            y = x * (y @ u @ v + weights.take(width)) + y
        else:
            y = x * (y @ weights.take(width, 1)) + y + weights.take(width)
    return y


def _batch_norm(weights, layer, x):
    gamma, beta, found = weights.take(x.shape[1]), weights.take(x.shape[1]), weights.statistics
    mean, var = (np.array(found[0][name]) for name in ("mean", "var"))
    del found[0]
    return (x - mean) / np.sqrt(var + layer["bn_param"]["eps"]) * gamma + beta


def _softmax(weights, layer, x):
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


LAYERS = {
    "InnerProduct": _inner_product,
    "MultiCross": _multi_cross,
    "BatchNorm": _batch_norm,
    "Softmax": _softmax,
    "ReLU": lambda weights, layer, x: np.maximum(x, 0),
    "ELU": lambda weights, layer, x: np.where(x < 0, layer["elu_param"]["alpha"] * np.expm1(x), x),
    "Dropout": lambda weights, layer, x: x,
    "Concat": lambda weights, layer, *x: np.concatenate(x, 1),
    "Add": lambda weights, layer, *x: sum(x),
    "ElementwiseMultiply": lambda weights, layer, *x: np.prod(x, 0),
    "Reshape": lambda weights, layer, x: x.reshape(-1, layer["leading_dim"]),
    "Scale": lambda weights, layer, x: np.repeat(x, int(layer["scale_param"]["factor"]), 1),
}


def _listed(value):
    return value if isinstance(value, list) else [value]


def _vectors(layer, folder, keys, first, slots):
    """The pooled vectors of a table, (n, slots, d); an unknown key is zeros."""
    settings = layer["sparse_embedding_hparam"]
    width, mean = settings["embedding_vec_size"], settings["combiner"] == "mean"
    known = np.fromfile(Path(folder) / "key", "<i8").tolist()
    rows = np.fromfile(Path(folder) / "emb_vector", "<f4").reshape(-1, width).astype(np.float64)
    table = dict(zip(known, rows, strict=True))
    found = np.zeros((len(keys), slots, width))
    for sample, own in enumerate(keys):
        for slot in range(slots):
            for key in own[first + slot]:
                found[sample, slot] += table.get(int(key), 0.0)
            found[sample, slot] /= max(1, len(own[first + slot])) if mean else 1
    return found


def predicted(graph, prefix, iteration, dense, keys):
    """Probabilities, (n, losses). Keys of the slots of a table must differ."""
    layers = json.loads(Path(graph).read_text())["layers"]
    weights = Weights(f"{prefix}_dense_{iteration}.model")
    tensors = {layers[0]["dense"]["top"]: dense}
    places, before = {}, 0
    for one in layers[0]["sparse"]:
        places[one["top"]] = before, one["slot_num"]
        before += one["slot_num"]
    tables, probabilities = 0, []
    for layer in layers[1:]:
        if "sparse_embedding_hparam" in layer:
            folder = f"{prefix}{tables}_sparse_{iteration}.model"
            tensors[layer["top"]] = _vectors(layer, folder, keys, *places[layer["bottom"]])
            tables += 1
            continue
        bottoms = [tensors[name] for name in _listed(layer["bottom"]) if name in tensors]
        if layer["type"] == "Slice":
            for top, (first, last) in zip(layer["top"], layer["ranges"], strict=True):
                tensors[top] = bottoms[0][:, first:last]
        elif layer["type"] == "BinaryCrossEntropyLoss":
            probabilities.append(1 / (1 + np.exp(-bottoms[0][:, 0])))
        else:
            tensors[layer["top"]] = LAYERS[layer["type"]](weights, layer, *bottoms)
    assert weights.at == len(weights.values)
    return np.stack(probabilities, 1)
