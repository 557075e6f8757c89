# SPDX-License-Identifier: Apache-2.0
"""Values of tensors that the step schedule computes without ever storing them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hugectr._core import SessionNetwork
from hugectr.base.errors import InvalidArgument
from hugectr.interop import to_numpy


def value_of(network: SessionNetwork, name: str, train: bool) -> npt.NDArray[np.float32]:
    """Value of a tensor of the training or the evaluation network, the whole global batch.

    A product that an activation follows, and a Concat that a product reads, have no memory: they
    are computed again, of their bottoms and of the weights as they are now.

    Raises
    ------
    InvalidArgument
        When there is no such tensor, or it can not be had either way.
    """
    try:
        return network.check_out_tensor(name, train)
    except InvalidArgument:
        layer = next((one for one in network.layers() if name in one["tops"]), None)
        if layer is None or layer["type"] not in ("InnerProduct", "FusedInnerProduct", "Concat"):
            raise
        bottoms = [value_of(network, bottom, train) for bottom in layer["bottoms"]]
    if layer["type"] == "Concat":
        return np.concatenate(bottoms, axis=layer["attributes"].get("axis", 1))
    weight, bias = (
        to_numpy(network.weight_view(f"{name}.{part}", 0)) for part in ("weight", "bias")
    )
    return np.asarray(bottoms[0] @ weight + bias.ravel(), dtype=np.float32)
