# SPDX-License-Identifier: Apache-2.0
"""Tests of hugectr.torch. ``make test-torch`` runs them, with the oldest and the newest torch.

``HUGECTR_TEST_DEVICE=cuda`` runs them on the first CUDA device instead of the CPU.
"""

import os

import pytest
import torch


@pytest.fixture(scope="session")
def device():
    return torch.device(os.environ.get("HUGECTR_TEST_DEVICE", "cpu"))


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(1)
