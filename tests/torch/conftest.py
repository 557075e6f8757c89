# SPDX-License-Identifier: Apache-2.0
"""Tests of hugectr.torch. ``make test-torch`` runs them, with the oldest and the newest torch.

``HUGECTR_TEST_DEVICE=cuda`` runs them on the first CUDA device instead of the CPU.
"""

import logging
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


def pytest_collection_modifyitems(config, items):
    """What means nothing beside CUDA, or needs more GPUs than there are, is deselected there: a
    skip is a failure for ``.ci/gpu``."""
    if os.environ.get("HUGECTR_TEST_DEVICE", "cpu") == "cpu":
        return
    there = torch.cuda.device_count()

    def fits(item):
        needed = max((mark.args[0] for mark in item.iter_markers("gpus")), default=1)
        return not item.get_closest_marker("of_cpu") and needed <= there

    others = [item for item in items if not fits(item)]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if fits(item)]


@pytest.fixture
def warnings():
    """Texts of the log's warnings."""
    texts = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: texts.append(record.getMessage())
    logging.getLogger("hugectr").addHandler(handler)
    yield texts
    logging.getLogger("hugectr").removeHandler(handler)
