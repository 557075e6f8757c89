# SPDX-License-Identifier: Apache-2.0
"""A concat that one InnerProduct reads, with parts of odd widths, against float64.

Its linear is split over the parts (split_linear_over_concat); with HUGECTR_FUSE=0 it is not.
"""

import numpy as np
import pytest
from oracle.reals import REALS

from hugectr import _core

BATCH = 301


def layer(kind, bottoms, tops, **attributes):
    return {
        "type": kind,
        "bottoms": bottoms.split(),
        "tops": tops.split(),
        "attributes": attributes,
    }


def layers(deep, out, relu_ends):
    end = [layer("ReLU", "fc", "y")] if relu_ends else []
    return [
        layer("InnerProduct", "x", "fc0", num_output=deep),
        layer("ReLU", "fc0", "relu0"),
        layer("Concat", "a relu0 c", "all"),
        layer("InnerProduct", "all", "fc" if relu_ends else "y", num_output=out),
        *end,
    ]


def before_relu(x, a, c, w0, b0, w1, b1):
    deep = np.maximum(x @ w0 + b0, 0)
    whole = np.concatenate([a, deep, c], axis=1)
    return deep, whole, whole @ w1 + b1


def formula(x, a, c, w0, b0, w1, b1, dy, relu_ends):
    """The result, the gradients of x, a, w0, b0, w1 and b1, and the scales of their errors."""
    deep, whole, y = before_relu(x, a, c, w0, b0, w1, b1)
    if relu_ends:
        dy = dy * (y > 0)
        y = np.maximum(y, 0)
    d_whole = dy @ w1.T
    d_deep = d_whole[:, a.shape[1] : a.shape[1] + deep.shape[1]] * (deep > 0)
    gradients = (d_deep @ w0.T, d_whole[:, : a.shape[1]], x.T @ d_deep, d_deep.sum(0))
    # Norms of what few numbers are sums of, which may cancel.
    scales = (0, 0, 0, np.linalg.norm(d_deep), 0, np.linalg.norm(dy))
    return y, (*gradients, whole.T @ dy, dy.sum(0)), scales


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "plain"])
@pytest.mark.parametrize("relu_ends", [False, True], ids=["linear", "relu"])
@pytest.mark.parametrize(
    ("a", "deep", "c", "out"),
    [(13, 64, 3, 1), (429, 40, 8, 1), (7, 45, 5, 1), (13, 64, 3, 24), (5, 50, 1, 7)],
)
@pytest.mark.parametrize("real", REALS, ids=lambda real: real.name)
def test_parts_of_odd_widths(
    rng, monkeypatch, assert_close, real, a, deep, c, out, relu_ends, fused
):
    monkeypatch.setenv("HUGECTR_FUSE", str(int(fused)))

    def rounded(*shape):
        return real.values(real.store(rng.standard_normal(shape))).astype(np.float32)

    shapes = {"x": (BATCH, 20), "a": (BATCH, a), "c": (BATCH, c)}
    network = _core.Network(
        shapes, layers(deep, out, relu_ends), no_gradient=["c"], dtype=real.name
    )
    assert ("concat_fwd" in network.op_records()) is not fused
    assert network.op_records().count("linear_fwd") == (4 if fused else 2)

    inputs = {name: rounded(*shape) for name, shape in shapes.items()}
    parameters = {name: rounded(*shape) for name, shape in network.parameters()}
    # Nor a unit at the kink of the inner relu: one of all that falls to the other side is .007 of
    # the gradient of x.
    w0, b0 = (value.astype(np.float64) for value in list(parameters.values())[:2])
    while (near := np.abs(inputs["x"] @ w0 + b0).min(axis=1) < 1e-3).any():
        inputs["x"][near] = rounded(near.sum(), 20)
    for name, value in parameters.items():
        network.set_parameter(name, value)
    exact = [v.astype(np.float64) for v in (*inputs.values(), *parameters.values())]
    z = before_relu(*exact)[-1]
    # No gradient at the kink of the relu at the end, where 16 bits round some units to the other
    # side.
    dy = rounded(BATCH, out) * (np.abs(z) > 0.05 * z.std()).astype(np.float32)
    for _ in range(2):  # the second step finds the memory as the first one left it
        network.forward(inputs)
        network.backward({"y": dy})

    y, gradients, scales = formula(*exact, dy.astype(np.float64), relu_ends)
    # Of a relu that few units pass, what half of them would be.
    assert_close(network.tensor("y"), y, "y", real.tolerance, np.linalg.norm(z) / np.sqrt(2.0))
    found = [network.gradient("x"), network.gradient("a")]
    found += [network.parameter_gradient(name) for name in parameters]
    for name, value, wanted, scale in zip(
        ["x", "a", *parameters], found, gradients, scales, strict=True
    ):
        assert_close(value, wanted, f"gradient of {name}", real.tolerance, scale)


def test_the_concat_itself_is_fused_away_only_where_that_helps():
    def records(a):
        shapes = {"x": (4, 20), "a": (4, a), "c": (4, 4)}
        return _core.Network(shapes, layers(8, 1, False), dtype="float32").op_records()

    assert records(3).count("linear_fwd") == 4
    assert records(4).count("linear_fwd") == 2  # every part begins at 16 bytes
