# SPDX-License-Identifier: Apache-2.0
"""Tables that grow in tiers below one GPU and below several: the model with all rows on them."""

import pytest
from model.growing_tiers import check_growth, growing_setup
from processes import job

from hugectr import _core

GPUS = _core.device_count("cuda")
CASES = {
    "adam lazy": {},
    "row-wise": {"optimizer": "RowWiseAdaGrad", "update_type": "Local"},
    "pooled": {"exchange": "pooled", "optimizer": "AdaGrad", "update_type": "Local"},
    "rows": {"exchange": "unique"},
    "localized": {"embedding": "LocalizedSlotSparseEmbeddingHash"},
    "two tables": {"net": "deepfm", "optimizer": "Ftrl", "update_type": "Local"},
    "16 bits": {"vector_type": "bfloat16"},
    "mixed": {"more": {"use_mixed_precision": True, "mixed_precision_type": "bfloat16"}},
}


@pytest.mark.parametrize("devices", [1, 2, 4])
@pytest.mark.parametrize("case", CASES)
def test_five_hundred_steps_are_the_same_to_the_bit(case, devices, tmp_path):
    if devices > GPUS:
        pytest.skip(f"needs {devices} GPUs, there are {GPUS}")
    check_growth(growing_setup(device="cuda", devices=devices, **CASES[case]), tmp_path)


@pytest.mark.skipif(GPUS < 2, reason=f"needs two GPUs, there are {GPUS}")
@pytest.mark.parametrize("exchange", ["pooled", "unique"])
def test_two_processes_with_a_gpu_each(exchange, tmp_path):
    script = job.TESTS / "processes" / "growing_tiers_job.py"
    status, out, err = job.run("launch", 2, script, exchange, "cuda", tmp_path)
    assert status == 0, f"{out}\n{err}"
    assert out.count("the same") == 2
