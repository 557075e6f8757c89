# SPDX-License-Identifier: Apache-2.0
"""The example of the README runs as printed and is as short as it says."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"


def test_readme_example_runs(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    script = tmp_path / "example.py"
    script.write_text(code)
    result = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    losses = [float(value) for value in re.findall(r"Loss: (\S+)", result.stdout + result.stderr)]
    assert len(losses) == 3  # at 50, 100 and 150
    assert losses[-1] < losses[0]
