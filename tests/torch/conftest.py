# SPDX-License-Identifier: Apache-2.0
"""Tests of hugectr.torch. ``make test-torch`` runs them, with the oldest and the newest torch.

``HUGECTR_TEST_DEVICE=cuda`` runs them on the first CUDA device instead of the CPU.
"""

import os

import pytest
import torch


@pytest.fixture(scope="session")
def device():
    """As tensors that are there name it: with its number."""
    return torch.empty(0, device=os.environ.get("HUGECTR_TEST_DEVICE", "cpu")).device


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(1)
