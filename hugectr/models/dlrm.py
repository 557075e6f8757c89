# SPDX-License-Identifier: Apache-2.0
"""DLRM: a bottom network for dense features, dot products of all pairs, a top network."""

from hugectr.base.errors import InvalidArgument
from hugectr.models.network import Network


def dlrm(net: Network) -> str:
    """DLRM (Naumov et al. 2019).

    When: dense and categorical columns both matter, and as the usual yardstick of training speed.
    It needs columns of both kinds.
    """
    if not net.dense or not net.slots:
        lacking = "dense columns" if net.slots else "categorical columns"
        raise InvalidArgument(f"models: dlrm: the data has no {lacking}; use deepfm, dcn or mlp")
    d = net.sizes.vec_size
    bottom = net.tower(net.dense, "bottom", (net.sizes.hidden[0], d))
    vectors = [name for name, _ in net.lookups(d, "rows")]
    if len(vectors) > 1:
        vectors = [net.layer("Concat", vectors, "rows/all", axis=1)]
    pairs = net.layer("Interaction", [bottom, vectors[0]], "dlrm/pairs")
    return net.logit(net.tower(pairs, "top"), "top")
