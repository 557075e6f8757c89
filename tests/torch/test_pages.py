# SPDX-License-Identifier: Apache-2.0
"""The code of the pages that need torch runs."""

import pytest
from torch_programs import ROOT, printed


@pytest.mark.parametrize("page", ["torch.md", "torchrec.md"])
def test_page(page, tmp_path):
    said = printed("tools/run_page.py", ROOT / "docs" / page, folder=tmp_path)
    assert "blocks ran" in said
