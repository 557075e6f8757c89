# SPDX-License-Identifier: Apache-2.0
"""Tests of ops run on every device there is, with the same oracle."""

import pytest


@pytest.fixture(autouse=True)
def every_device(run_on_device: None) -> None:
    """See ``run_on_device``."""
