# SPDX-License-Identifier: Apache-2.0
"""Logistic regression: one weight a category and a dense feature."""

from hugectr.models.network import Network


def lr(net: Network) -> str:
    """Logistic regression (the "wide" part of Wide & Deep), without crosses.

    When: as the baseline that everything else has to beat, where a model must be read weight by
    weight, or with so few rows that interactions can not be learnt. It knows no interactions.
    """
    return net.summed(net.first_order(net.flat_vectors(net.outputs, "wide"), "wide"), "lr/logit")
