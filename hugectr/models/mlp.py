# SPDX-License-Identifier: Apache-2.0
"""Embeddings and dense features through a deep network."""

from hugectr.models.network import Network


def mlp(net: Network) -> str:
    """A deep network on vectors and dense features, side by side.

    When: dense features say most, or as the plain deep baseline; interactions are learnt by the
    layers alone.
    """
    features = net.flat_vectors(net.sizes.vec_size, "deep")
    if net.dense:
        features.append(net.dense)
    return net.logit(net.tower(net.joined(features, "deep/in"), "deep"), "deep")
