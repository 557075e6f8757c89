# SPDX-License-Identifier: Apache-2.0
"""Without its package TensorBoard says how to have it, before anything is trained."""

import sys

import pytest

from hugectr.callbacks import TensorBoard


def test_the_message(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ImportError, match=r"pip install 'hugectr\[tensorboard\]'"):
        TensorBoard(tmp_path)
