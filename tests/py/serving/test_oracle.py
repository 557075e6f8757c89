# SPDX-License-Identifier: Apache-2.0
"""A loaded model against its formula in float64, from the files of the checkpoint alone."""

from itertools import pairwise

import numpy as np
from oracle.framed_model import VEC, fitted, frame, trained

import hugectr


def vectors_of(session, index):
    """key -> vector in float64."""
    table = session.table(index)
    order = table.order(0)
    bag = table.read(order, 0, len(order), False)
    return dict(zip(bag["keys"].tolist(), bag["vectors"].astype(np.float64), strict=True))


def pooled(table, keys, offsets, mean):
    """Sums (or means) of the vectors of each bucket; unseen keys are zeros that count."""
    found = np.zeros((len(offsets) - 1, VEC))
    for bucket, (begin, end) in enumerate(pairwise(offsets)):
        for key in keys[int(begin) : int(end)].tolist():
            found[bucket] += table.get(key, 0.0)
        if mean and end > begin:
            found[bucket] /= float(end - begin)
    return found


def test_predictions_are_the_formula(tmp_path):
    model = hugectr.load(trained(steps=5).save(tmp_path))
    new = frame(seed=4, rows=60)  # with keys that training has not seen
    encoded = fitted().encode(new)
    network = model.session.network
    weights, place = network.dense_weights().astype(np.float64), 0
    tensors = {}
    for name in network.weight_names():
        shape = network.weight_view(name, 0).shape
        size = int(np.prod(shape))
        tensors[name] = weights[place : place + size].reshape(shape)
        place += size
    parts = []
    for index, name in enumerate(("categories", "tags")):
        buckets = pooled(vectors_of(model.session, index), *encoded.sparse[name], name == "tags")
        parts.append(buckets.reshape(len(encoded.dense), -1))
    features = np.concatenate([*parts, encoded.dense.astype(np.float64)], axis=1)
    hidden = features @ tensors["hidden.weight"] + tensors["hidden.bias"].ravel()
    ((_, mean, var),) = network.non_trainables()
    normed = (hidden - mean) / np.sqrt(var.astype(np.float64) + 1e-4)
    normed = normed * tensors["normed.gamma"].ravel() + tensors["normed.beta"].ravel()
    score = np.maximum(normed, 0) @ tensors["score.weight"] + tensors["score.bias"].ravel()
    wanted = 1 / (1 + np.exp(-score.ravel()))
    for batch in (None, 1, 7, 60):
        np.testing.assert_allclose(model.predict(new, batch), wanted, rtol=0, atol=2e-6)
    np.testing.assert_allclose(model.predict(new, output="logit"), score.ravel(), atol=1e-5)
