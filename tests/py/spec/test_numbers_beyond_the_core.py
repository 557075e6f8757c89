# SPDX-License-Identifier: Apache-2.0
"""Numbers that nothing could be built with are said by the name of their argument, at once."""

import pytest

import hugectr


@pytest.mark.parametrize("factor", [2**33, 2**63, 2**70, 1e300])
def test_factor_of_scale(factor):
    with pytest.raises(hugectr.InvalidArgument, match=r"factor: found .* from 1 to 1000000"):
        hugectr.DenseLayer(hugectr.Layer_t.Scale, ["a"], ["b"], axis=0, factor=factor)
    layer = hugectr.DenseLayer(hugectr.Layer_t.Scale, ["a"], ["b"], axis=0, factor=1e6)
    assert layer.parameters["factor"] == 1_000_000


@pytest.mark.parametrize("workers", [65_537, 2**31, 2**63])
def test_workers_of_a_reader(workers):
    reader = [hugectr.DataReaderType_t.Norm, "train.txt"]
    with pytest.raises(hugectr.InvalidArgument, match=r"num_workers: found .* from 1 to 65536"):
        hugectr.DataReaderParams(*reader, eval_source="", num_workers=workers)
    assert hugectr.DataReaderParams(*reader, eval_source="", num_workers=65_536).num_workers


def test_layers_of_multi_cross():
    ends = [["a"], ["b"]]
    with pytest.raises(hugectr.InvalidArgument, match=r"num_layers: found 65, .* from 1 to 64"):
        hugectr.DenseLayer(hugectr.Layer_t.MultiCross, *ends, num_layers=65)
    assert hugectr.DenseLayer(hugectr.Layer_t.MultiCross, *ends, num_layers=64).parameters


def test_ids_of_devices():
    with pytest.raises(
        hugectr.InvalidArgument, match=r"vvgpu\[0\]\[1\]: found 2147483648, allowed"
    ):
        hugectr.CreateSolver(vvgpu=[[0, 2**31]], batchsize=2, batchsize_eval=2)
