# SPDX-License-Identifier: Apache-2.0
"""The Python example of docs/prediction.md runs as printed; the C++ one is in test_install.py."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "prediction.md"


def test_the_example_runs(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "example.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "example.py"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    printed = re.findall(r"^\[([-+.\de ]+)\]$", done.stdout, re.MULTILINE)
    assert [len(line.split()) for line in printed] == [3, 1]
    assert all(0 < float(word) < 1 for line in printed for word in line.split())
    assert "'AUC'" in done.stdout
