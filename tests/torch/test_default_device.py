# SPDX-License-Identifier: Apache-2.0
"""Programs that set torch's default device: what has to be on the host stays there.

The default device is "meta" here, whose tensors hold nothing: whoever relies on it fails.
"""

import pytest
import torch

import hugectr
import hugectr.torch as ht

DIM, ROWS = 4, 12


@pytest.mark.parametrize("kind", [ht.EmbeddingBagCollection, ht.EmbeddingCollection])
def test_training_under_another_default_device(device, kind):
    keys = torch.arange(6, device=device).reshape(3, 2)
    source = torch.rand(ROWS, DIM, device="cpu")
    ends = []
    for default in ("cpu", "meta"):
        with torch.device(default):
            adam = hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam)
            tables = kind([ht.TableConfig("a", DIM)], adam, seed=3, device=device)
            ht.import_embedding_bag(tables, source, "a")
            rows = tables.optimizer(lr=0.1)
            for batch in (keys, keys + 1, keys[:0]):
                rows.zero_grad()
                found = tables({"a": batch})
                vectors = found["a"].values() if kind is ht.EmbeddingCollection else found["a"]
                vectors.cos().sum().backward()
                torch.nn.utils.clip_grad_norm_(rows.rows, 0.5)
                rows.step()
            ends.append(ht.export_embedding_bag(tables, ROWS, "a"))
            assert tables.rows("a").lookup([1, 99])[1].tolist() == [True, False]
    assert ends[1].device.type == "cpu"
    assert torch.equal(*ends)
    assert not torch.equal(ends[0], source)
