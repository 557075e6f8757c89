# SPDX-License-Identifier: Apache-2.0
"""Deep & Cross, version 2: explicit crosses of all features beside a deep network."""

from hugectr.models.network import Network


def dcn(net: Network) -> str:
    """Deep & Cross Network v2 (Wang et al. 2021), parallel, with low-rank cross layers.

    When: interactions of three and more features matter and there are enough rows to learn them:
    each cross layer adds one degree. It costs more time a step than DeepFM.
    """
    features = net.flat_vectors(net.sizes.vec_size, "deep")
    if net.dense:
        features.append(net.dense)
    start = net.joined(features, "deep/in")
    crossed = net.layer(
        "MultiCross",
        [start],
        "cross/out",
        num_layers=net.sizes.cross_layers,
        projection_dim=net.sizes.cross_rank,
    )
    both = net.joined([net.tower(start, "deep"), crossed], "dcn/both")
    return net.logit(both, "dcn")
