# SPDX-License-Identifier: Apache-2.0
"""What a process asks owners for, against plain Python."""

import pytest
import torch

import hugectr
from hugectr.torch.requests import owners_of_keys, request_of, turned

KEYS = [0, 1, 5, 2**62, 2**63 - 2, -1, -2, -7, -(2**63)]


@pytest.mark.parametrize("processes", range(1, 9))
def test_owners_are_those_of_unsigned_keys(processes):
    wanted = [key % 2**64 % processes for key in KEYS]
    assert owners_of_keys(torch.tensor(KEYS), processes).tolist() == wanted


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("samples", [0, 1, 40])
def test_requests_are_the_distinct_keys_by_table_and_owner(processes, samples):
    generator = torch.Generator().manual_seed(samples)
    batch = []
    for _ in range(3):
        lengths = torch.randint(0, 3, (samples,), generator=generator)
        offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
        keys = torch.randint(-6, 6, (int(offsets[-1]),), generator=generator)
        batch.append((keys, offsets.to(torch.int32)))
    by_key, mean = [True, False, True], [False, True, True]
    request = request_of(batch, by_key, mean, processes)
    wanted, counts = [], []
    for table, (keys, _) in enumerate(batch):
        owner = {
            key: key % 2**64 % processes if by_key[table] else table % processes
            for key in set(keys.tolist())
        }
        by_owner = [sorted(k for k in owner if owner[k] == r) for r in range(processes)]
        wanted += [key for part in by_owner for key in part]
        counts.append([len(part) for part in by_owner])
    assert request.keys.tolist() == wanted
    assert request.counts == counts
    begin = 0
    for (keys, offsets), table, table_mean in zip(batch, request.tables, mean, strict=True):
        own = request.keys[begin : begin + table.rows]
        assert torch.equal(own[table.numbers.long()], keys)
        rows = torch.randn(table.rows, 4, generator=generator)
        pooled = torch.full((samples, 4), torch.nan)
        table.pool(rows, pooled)
        gradient = torch.randn(samples, 4, generator=generator)
        sums = torch.zeros(table.rows, 4, dtype=torch.float64)
        for sample in range(samples):
            numbers = table.numbers[offsets[sample] : offsets[sample + 1]].long()
            scale = 1 / max(len(numbers), 1) if table_mean else 1
            torch.testing.assert_close(
                pooled[sample].double(), rows[numbers].double().sum(0) * scale
            )
            for number in numbers:
                sums[number] += gradient[sample].double() * scale * 0.5
        torch.testing.assert_close(table.sum_gradients(gradient, 0.5).double(), sums)
        begin += table.rows


def test_the_key_of_no_row_is_refused():
    offsets = torch.tensor([0, 2], dtype=torch.int32)
    with pytest.raises(hugectr.InvalidArgument, match="9223372036854775807"):
        request_of([(torch.tensor([3, 2**63 - 1]), offsets)], [True], [False], 2)


def test_blocks_are_turned():
    flat = torch.arange(10)
    sizes = [[1, 2, 0], [3, 0, 4]]  # 0 | 1 2 | ; 3 4 5 | | 6 7 8 9
    assert turned(flat, sizes).tolist() == [0, 3, 4, 5, 1, 2, 6, 7, 8, 9]
