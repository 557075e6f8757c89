# SPDX-License-Identifier: Apache-2.0
"""Tables that grow in tiers below one GPU and below several: the model with all rows on them."""

import pytest
from model.growing_tiers import check_growth, growing_setup, in_tiers, tiers_of
from model.nets import make_model
from model.test_tiers import assert_same_rows, course
from processes import job

from hugectr.checkpoints.folder import verify
from hugectr.checkpoints.manifest import read_manifest

DEVICES = [pytest.param(n, marks=pytest.mark.gpus(n)) for n in (1, 2, 4)]
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


@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("case", CASES)
def test_five_hundred_steps_are_the_same_to_the_bit(case, devices, tmp_path):
    check_growth(growing_setup(device="cuda", devices=devices, **CASES[case]), tmp_path)


@pytest.mark.parametrize("case", ["adam lazy", "row-wise", "two tables", "16 bits", "mixed"])
def test_rows_that_the_host_moves_are_the_same(case, tmp_path, monkeypatch):
    monkeypatch.setenv("HUGECTR_MOVE_ROWS", "host")
    check_growth(growing_setup(device="cuda", **CASES[case]), tmp_path)


@pytest.mark.gpus(2)
@pytest.mark.parametrize("exchange", ["pooled", "unique"])
def test_two_processes_with_a_gpu_each(exchange, tmp_path):
    script = job.TESTS / "processes" / "growing_tiers_job.py"
    status, out, err = job.run("launch", 2, script, exchange, "cuda", tmp_path)
    assert status == 0, f"{out}\n{err}"
    assert out.count("the same") == 2


@pytest.mark.parametrize("devices", DEVICES[:2])
def test_checkpoints_link_the_segments_below_gpus(devices, tmp_path):
    """And training goes on from them to the bit, over a disk or with all rows on the GPUs."""
    setup = growing_setup(device="cuda", devices=devices)
    few = make_model(in_tiers(setup, tiers_of(setup, tmp_path / "rows")["disk"]))
    course(few, 200)
    path = few.save(tmp_path / "run")
    assert read_manifest(path)["format"] == 4
    verify(path)
    rest = course(few, 20)
    for way in (setup, in_tiers(setup, tiers_of(setup, tmp_path / "others")["disk"])):
        model = make_model(way)
        model.resume(path)
        assert course(model, 20) == rest
        assert_same_rows(model, few)
        del model
