# SPDX-License-Identifier: Apache-2.0
"""The example of docs/export.md runs as printed."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs/export.md"


def test_the_page_runs(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "page.py").write_text("\n".join(blocks))
    subprocess.run([sys.executable, "page.py"], check=True, cwd=tmp_path, timeout=300)
