# SPDX-License-Identifier: Apache-2.0
"""Batches that stay on the devices train as batches that are read."""

import numpy as np
import pytest
from model.nets import Setup, losses, make_model

import hugectr
from hugectr.data import MemoryDataset, from_arrays
from hugectr.data.planted import make_planted

SLOTS, DENSE, BATCH, BATCHES = 4, 3, 32, 5


def _data(batches: int) -> MemoryDataset:
    sizes = [30, 200, 7, 50]
    samples = make_planted(BATCH * BATCHES, sizes, hotness=(0, 3), dense_dim=DENSE, seed=3)
    whole = samples.to_memory("keys")
    keys, offsets = whole.sparse["keys"]
    n = BATCH * batches
    part = offsets[: n * SLOTS + 1]
    return from_arrays(whole.label[:n], whole.dense[:n], {"keys": (keys[: part[-1]], part)})


def _losses(data: MemoryDataset, resident: int, devices: int = 1) -> np.ndarray:
    setup = Setup(
        "tower", data, "", SLOTS, DENSE, nnz=3, batch=BATCH, devices=devices, resident=resident
    )
    return losses(make_model(setup), 3 * BATCHES)


@pytest.mark.parametrize("devices", [1, 4])
def test_all_batches_give_the_losses_of_reading(devices):
    read = _losses(_data(BATCHES), 0, devices)
    np.testing.assert_array_equal(_losses(_data(BATCHES), BATCHES, devices), read)


def test_fewer_batches_are_the_first_ones():
    read = _losses(_data(3), 0)
    np.testing.assert_array_equal(_losses(_data(BATCHES), 3), read)
    assert not np.array_equal(_losses(_data(BATCHES), BATCHES), read)


def test_they_need_data_that_repeats():
    setup = Setup("tower", _data(2), "", SLOTS, DENSE, nnz=3, repeat=False, resident=2)
    with pytest.raises(hugectr.InvalidArgument, match="resident_batches needs repeat_dataset"):
        make_model(setup)
    with pytest.raises(hugectr.InvalidArgument, match="resident_batches"):
        hugectr.DataReaderParams(
            hugectr.DataReaderType_t.Norm, source=_data(1), resident_batches=-1
        )
