# SPDX-License-Identifier: Apache-2.0
"""Every loss of the catalogue against its formula in float64; test_bce_loss has more of one."""

import numpy as np
import pytest
from oracle.activations import LOSSES
from oracle.partials import partial_rows

from hugectr import _core

#: Layer type -> its op.
OPS = {"BinaryCrossEntropyLoss": "bce_loss"}


@pytest.mark.cpu_only
def test_all_of_the_catalogue_are_here():
    catalogue = _core.losses()
    assert set(OPS) == set(LOSSES) == set(catalogue)
    for kind, op in OPS.items():
        entry = catalogue[kind]
        assert op == f"{entry['op']}_loss"
        assert entry["doc"]
        assert entry["labels"][0] < entry["labels"][1]


@pytest.mark.parametrize("kind", sorted(LOSSES))
@pytest.mark.parametrize("batch", [1, 777, 3000])
def test_value_and_gradient(rows, rng, assert_close, kind, batch):
    least, most = _core.losses()[kind]["labels"]
    x = rows(rng.standard_normal((batch, 1)) * 3)
    y = rows(rng.uniform(max(least, -3), min(most, 3), (batch, 1)))
    weight = rng.integers(0, 3, batch).astype(np.float32)
    weight[0] = 1
    share = 1 / np.float32(weight.sum() + 5)  # other devices have samples too
    loss, dx = np.full(1, np.nan, np.float32), rows(np.full((batch, 1), np.nan))
    _core.run_op(
        OPS[kind],
        {
            "logits": x,
            "labels": y,
            "weight": weight,
            "inv_weight_sum": np.array([share], np.float32),
            "loss": loss,
            "dlogits": dx,
            "partial": np.full(partial_rows(batch), np.nan),
        },
        {"grad_scale": 4.0},
    )
    x64, y64 = x.astype(np.float64), y.astype(np.float64)
    w64 = weight[:, None].astype(np.float64)

    def weighted(x):
        return w64 * LOSSES[kind](x, y64) * share

    assert_close(loss[0], weighted(x64).sum())
    step = 1e-4  # element by element, as the loss is
    slope = (weighted(x64 + step) - weighted(x64 - step)) / (2 * step)
    assert_close(dx, 4.0 * slope)
