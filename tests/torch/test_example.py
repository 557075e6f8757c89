# SPDX-License-Identifier: Apache-2.0
"""The examples in PyTorch learn what is planted in their data."""

import re

import pytest
from torch_programs import launched, printed


def test_dlrm(device):
    found = re.search(
        r"AUC (\S+); rows (.*)", printed("examples/torch_dlrm.py", "--device", device.type)
    )
    assert float(found[1]) > 0.775  # what clicks are drawn by has .85
    assert "'user': 400" in found[2]


def test_dlrm_of_two_processes(tmp_path):
    said = launched("examples/torch_ddp.py", 2, "--folder", tmp_path)
    found = re.search(r"2 processes: AUC (\S+); rows (.*)", said)
    assert float(found[1]) > 0.775
    assert "'user': 400" in found[2]
    assert (tmp_path / "tables" / "step-0000000300" / "table3.key.2-of-2").exists()


def test_lightning():
    said = printed("examples/torch_lightning.py")
    found = re.search(r"AUC (\S+); rows (.*)", said)
    assert float(found[1]) > 0.775
    assert "'user': 400" in found[2]


@pytest.mark.parametrize(
    ("name", "hit_rate", "ndcg"),
    [
        ("torch_sasrec.py", 0.75, 0.44),  # of 100 items; who knows the rule has .86
        ("torch_two_towers.py", 0.59, 0.37),  # of 200 items; who knows the tastes has .63, .41
    ],
)
def test_ranking(name, hit_rate, ndcg, device):
    said = printed(f"examples/{name}", "--device", device.type)
    found = re.search(r"HitRate@10 (\S+), NDCG@10 (\S+);", said)
    assert float(found[1]) > hit_rate
    assert float(found[2]) > ndcg
