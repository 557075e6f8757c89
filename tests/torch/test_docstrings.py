# SPDX-License-Identifier: Apache-2.0
"""Everything public of hugectr.torch says what it is."""

from docs.test_docstrings import silent


def test_everything_public_has_a_docstring():
    assert list(silent("hugectr.torch")) == []
