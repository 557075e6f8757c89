# SPDX-License-Identifier: Apache-2.0
"""One check for all layers: forward and every gradient against float64, in 32 and 16 bits."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from oracle.reals import REALS, Real

from hugectr import _core


@pytest.fixture(autouse=True)
def every_device(run_on_device: None) -> None:
    """See ``run_on_device``."""


@pytest.fixture(params=REALS, ids=lambda real: real.name)
def check_layer(
    request: pytest.FixtureRequest,
    rng: np.random.Generator,
    assert_close: Callable[..., None],
    numeric_gradients: Callable[..., list[npt.NDArray[np.float64]]],
) -> Callable[..., _core.Network]:
    """``check_layer(layer, inputs, formula)`` builds a network of one layer and compares.

    ``inputs`` maps bottoms to shapes or arrays; ``formula`` takes the bottoms, then the parameters
    in their order, and returns the top or the list of tops, in float64. Inputs, parameters and
    gradients of tops are numbers that the element type holds, so that only the layer rounds.
    """
    real: Real = request.param

    def rounded(values: npt.ArrayLike) -> npt.NDArray[np.float32]:
        return real.values(real.store(values)).astype(np.float32)

    def close(found: npt.ArrayLike, wanted: npt.ArrayLike, what: str, scale: float = 0.0) -> None:
        assert_close(found, wanted, what, tolerance=real.tolerance, scale=scale)

    def check(
        layer: dict[str, Any],
        inputs: dict[str, Any],
        formula: Callable[..., Any],
        no_gradient: list[str] | None = None,
    ) -> _core.Network:
        arrays = {
            name: rounded(rng.standard_normal(v) if isinstance(v, tuple) else v)
            for name, v in inputs.items()
        }
        network = _core.Network(
            {name: a.shape for name, a in arrays.items()},
            [layer],
            no_gradient=no_gradient,
            dtype=real.name,
        )
        parameters = {}
        for name, shape in network.parameters():
            parameters[name] = rounded(rng.standard_normal(shape) * 0.3)
            network.set_parameter(name, parameters[name])
        arguments = [*(arrays[b] for b in layer["bottoms"]), *parameters.values()]
        values = formula(*(a.astype(np.float64) for a in arguments))
        values = values if isinstance(values, list) else [values]

        network.forward(arrays)
        for top, value in zip(layer["tops"], values, strict=True):
            close(network.tensor(top), value, top)

        dys = [rounded(rng.standard_normal(v.shape)) for v in values]
        network.backward(dict(zip(layer["tops"], dys, strict=True)))
        wanted = numeric_gradients(formula, arguments, dys)
        for name, gradient in zip(layer["bottoms"], wanted, strict=False):
            if name not in (no_gradient or []):
                close(network.gradient(name), gradient, f"gradient of {name}")
        first = len(layer["bottoms"])
        for i, (name, gradient) in enumerate(zip(parameters, wanted[first:], strict=True), first):
            scale = 0.0
            if np.linalg.norm(gradient) < 0.1 * np.linalg.norm(dys[0]):
                # A sum whose terms may cancel is as exact as they are.
                odd = rng.integers(0, 2, dys[0].shape).astype(np.float32)
                parts = [
                    numeric_gradients(formula, arguments, [dys[0] * part, *dys[1:]])[i]
                    for part in (odd, 1 - odd)
                ]
                scale = float(np.linalg.norm(parts))
            close(network.parameter_gradient(name), gradient, f"gradient of {name}", scale)
        return network

    return check
