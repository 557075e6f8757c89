# SPDX-License-Identifier: Apache-2.0
"""Factorization machine: weights, and products of vectors for all pairs of features."""

from hugectr.models.network import Network


def fm(net: Network) -> str:
    """Factorization machine (Rendle 2010).

    When: many categories and few rows of each pair, and a model that must be small and quick: all
    pairs interact through their vectors, and there is no dense network.
    """
    vectors, weights = net.factors("fm")
    return net.summed([*net.first_order(weights, "first"), net.pairs(vectors, "fm")], "fm/logit")
