# SPDX-License-Identifier: Apache-2.0
"""Too much bad data ends a job where it ends a single process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def outcome(folder, processes, kind, share):
    folder.mkdir()
    script = [str(HERE / "bad_share_job.py"), kind, str(share), str(folder), str(folder / "out")]
    command = [sys.executable]
    if processes > 1:
        command += ["-m", "hugectr", "launch", "-n", str(processes)]
    paths = [str(HERE.parent), str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        command + script, env=environ, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return (folder / "out").read_text()


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("kind", "share", "words"),
    [
        ("norm", 0.1, "max_bad_share allows 10 %"),
        ("norm", 0.2, "max_bad_share allows 20 %"),
        ("norm", 0.9, "no error"),
        ("parquet", 0.1, "max_bad_share allows 10 %"),
    ],
)
def test_one_process_and_two_stop_at_the_same_batch(tmp_path, kind, share, words):
    alone = outcome(tmp_path / "1", 1, kind, share)
    assert words in alone
    assert outcome(tmp_path / "2", 2, kind, share) == alone
