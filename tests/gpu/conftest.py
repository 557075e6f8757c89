# SPDX-License-Identifier: Apache-2.0
"""Tests say how many GPUs they need (``gpus(n)``). With fewer there they are deselected, and
counted as such: a skip is a failure for ``.ci/gpu``."""

from hugectr import _core


def needed(item):
    """GPUs that a test can not do without: one, unless it says more."""
    return max((mark.args[0] for mark in item.iter_markers("gpus")), default=1)


def pytest_collection_modifyitems(config, items):
    there = _core.device_count("cuda")
    short = [item for item in items if needed(item) > there]
    if short:
        config.hook.pytest_deselected(items=short)
        items[:] = [item for item in items if needed(item) <= there]
