# SPDX-License-Identifier: Apache-2.0
"""One check for all layers: forward and every gradient against a float64 formula."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hugectr import _core


@pytest.fixture(autouse=True)
def every_device(run_on_device: None) -> None:
    """See ``run_on_device``."""


@pytest.fixture
def check_layer(
    rng: np.random.Generator,
    assert_close: Callable[..., None],
    numeric_gradients: Callable[..., list[npt.NDArray[np.float64]]],
) -> Callable[..., _core.Network]:
    """``check_layer(layer, inputs, formula)`` builds a network of one layer and compares.

    ``inputs`` maps bottoms to shapes or arrays; ``formula`` takes the bottoms, then the parameters
    in their order, and returns the top or the list of tops, in float64.
    """

    def check(
        layer: dict[str, Any],
        inputs: dict[str, Any],
        formula: Callable[..., Any],
        no_gradient: list[str] | None = None,
    ) -> _core.Network:
        arrays = {
            name: (rng.standard_normal(v) if isinstance(v, tuple) else v).astype(np.float32)
            for name, v in inputs.items()
        }
        network = _core.Network(
            {name: a.shape for name, a in arrays.items()}, [layer], no_gradient=no_gradient
        )
        parameters = {}
        for name, shape in network.parameters():
            parameters[name] = rng.standard_normal(shape).astype(np.float32) * 0.3
            network.set_parameter(name, parameters[name])
        arguments = [*(arrays[b] for b in layer["bottoms"]), *parameters.values()]
        values = formula(*(a.astype(np.float64) for a in arguments))
        values = values if isinstance(values, list) else [values]

        network.forward(arrays)
        for top, value in zip(layer["tops"], values, strict=True):
            assert_close(network.tensor(top), value, top)

        dys = [rng.standard_normal(v.shape).astype(np.float32) for v in values]
        network.backward(dict(zip(layer["tops"], dys, strict=True)))
        wanted = numeric_gradients(formula, arguments, dys)
        for name, gradient in zip(layer["bottoms"], wanted, strict=False):
            if name not in (no_gradient or []):
                assert_close(network.gradient(name), gradient, f"gradient of {name}")
        for name, gradient in zip(parameters, wanted[len(layer["bottoms"]) :], strict=True):
            assert_close(network.parameter_gradient(name), gradient, f"gradient of {name}")
        return network

    return check
