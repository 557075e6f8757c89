# SPDX-License-Identifier: Apache-2.0
"""Activations of the catalogue as layers; relu and sigmoid have files of their own."""

import functools

import numpy as np
import pytest
from oracle.activations import ACTIVATIONS, elu

from hugectr import _core


def layer(kind, **attributes):
    return {"type": kind, "bottoms": ["x"], "tops": ["y"], "attributes": attributes}


@pytest.mark.parametrize("shape", [(7, 5), (4, 3, 5)])
@pytest.mark.parametrize("kind", sorted(ACTIVATIONS))
def test_every_activation_is_a_layer(check_layer, rng, kind, shape):
    x = rng.standard_normal(shape)
    check_layer(layer(kind), {"x": x + 0.01 * np.sign(x)}, ACTIVATIONS[kind])  # away from kinks


def test_a_field_is_a_parameter_of_the_layer(check_layer, rng):
    x = rng.standard_normal((7, 5))
    formula = functools.partial(elu, alpha=0.25)
    check_layer(layer("ELU", elu_alpha=0.25), {"x": x + 0.01 * np.sign(x)}, formula)


def test_a_field_out_of_bounds_names_the_layer():
    with pytest.raises(_core.InvalidArgument, match=r'ELU layer "y": elu_alpha: found -1'):
        _core.Network({"x": (3, 2)}, [layer("ELU", elu_alpha=-1.0)])
