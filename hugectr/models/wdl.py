# SPDX-License-Identifier: Apache-2.0
"""Wide & Deep: logistic regression beside a deep network."""

from hugectr.models.network import Network


def wdl(net: Network) -> str:
    """Wide & Deep (Cheng et al. 2016).

    When: some categories (or crosses, as columns of their own) are known to decide alone: the wide
    part remembers them, the deep part generalises.
    """
    features = net.flat_vectors(net.sizes.vec_size, "deep")
    if net.dense:
        features.append(net.dense)
    logits = net.first_order(net.flat_vectors(net.outputs, "wide"), "wide")
    logits.append(net.logit(net.tower(net.joined(features, "deep/in"), "deep"), "deep"))
    return net.summed(logits, "wdl/logit")
