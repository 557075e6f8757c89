# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from hugectr import _core


def layer(rate=0.5, top="y"):
    return {
        "type": "Dropout",
        "bottoms": ["x"],
        "tops": [top],
        "attributes": {"dropout_rate": rate},
    }


def mask(step=1, seed=1, **spec):
    network = _core.Network({"x": (50, 40)}, [layer(**spec)], seed=seed)
    network.forward({"x": np.ones((50, 40), np.float32)}, step=step)
    return network.tensor(spec.get("top", "y")) != 0


def test_dropout_forward_and_backward_share_the_mask(rng, assert_close):
    network = _core.Network({"x": (60, 30)}, [layer(0.25)])
    x, dy = (rng.standard_normal((60, 30)).astype(np.float32) for _ in range(2))
    network.forward({"x": x}, step=7)
    y = network.tensor("y")
    kept = y != 0
    assert 0.65 < kept.mean() < 0.85
    assert_close(y, np.where(kept, x / 0.75, 0))
    network.backward({"y": dy})
    assert_close(network.gradient("x"), np.where(kept, dy / 0.75, 0))


def test_dropout_is_the_identity_in_evaluation(rng):
    network = _core.Network({"x": (6, 5)}, [layer(0.9)], train=False)
    x = rng.standard_normal((6, 5)).astype(np.float32)
    network.forward({"x": x})
    np.testing.assert_array_equal(network.tensor("y"), x)


def test_dropout_mask_follows_seed_step_and_layer():
    first = mask()
    np.testing.assert_array_equal(first, mask())
    for other in (mask(step=2), mask(seed=2), mask(top="z")):
        assert 0.4 < (first == other).mean() < 0.6


def test_dropout_rejects_rate_one():
    with pytest.raises(_core.InvalidArgument, match='Dropout layer "y": dropout_rate is 1'):
        _core.Network({"x": (6, 5)}, [layer(1.0)])
