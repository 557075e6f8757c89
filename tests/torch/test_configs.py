# SPDX-License-Identifier: Apache-2.0
"""Configs of other classes."""

from types import SimpleNamespace

import pytest
import torch

import hugectr.torch as ht


@pytest.mark.parametrize(
    ("fields", "least", "most"),
    [
        ({"num_embeddings": 4, "weight_init_max": 0.0}, 0.0, 1e-29),
        ({"num_embeddings": 4, "weight_init_max": 0}, 0.0, 1e-29),
        ({"num_embeddings": 4, "weight_init_max": 2.0}, 1.0, 2.0),
        ({"num_embeddings": 4, "weight_init_max": None}, 0.25, 0.5),
        ({}, 0.02, 0.05),
    ],
)
def test_first_values_are_within_the_bound_of_a_config(fields, least, most, device):
    config = SimpleNamespace(name="item", embedding_dim=8, **fields)
    bags = ht.EmbeddingBagCollection([config], seed=1, device=device)
    vectors = bags({"item": torch.arange(100, device=device)})["item"]
    assert least <= vectors.abs().max() <= most
