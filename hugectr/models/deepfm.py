# SPDX-License-Identifier: Apache-2.0
"""DeepFM: a factorization machine beside a deep network on the same vectors."""

from hugectr.models.network import Network


def deepfm(net: Network) -> str:
    """DeepFM (Guo et al. 2017).

    When: to begin with. Weights, pairs and a deep network learn beside one another from one set of
    vectors, so it does well from ten thousand rows to billions, without crosses made by hand.
    """
    vectors, weights = net.factors("fm")
    logits = [*net.first_order(weights, "first"), net.pairs(vectors, "fm")]
    features = [vectors, net.dense] if net.dense else [vectors]
    logits.append(net.logit(net.tower(net.joined(features, "deep/in"), "deep"), "deep"))
    return net.summed(logits, "deepfm/logit")
