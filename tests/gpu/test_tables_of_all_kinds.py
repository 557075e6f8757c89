# SPDX-License-Identifier: Apache-2.0
"""Tables whose rows live elsewhere, come and go, or are placed in any way, on one GPU."""

import numpy as np
import pytest
from model import placed_models, test_one_hot_embeddings
from model.test_row_lives import LIVES
from oracle.streaming_net import batches, build, stream

import hugectr

DEVICE = "cuda"
STEPS = 30


def course(model, steps=STEPS):
    """Losses; somebody looks at the model meanwhile."""
    found = []
    for step in range(steps):
        assert model.train()
        found.append(model.get_current_loss())
        if step == 11:
            model.eval()
    return found


def rows_of(model):
    return [table.dump(True) for table in model.session.tables()]


def assert_same(one, other):
    for a, b in zip(rows_of(one), rows_of(other), strict=True):
        np.testing.assert_array_equal(a["keys"], b["keys"])
        np.testing.assert_array_equal(a["vectors"], b["vectors"])
        for x, y in zip(a["states"], b["states"], strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdaGrad", "Ftrl"])
@pytest.mark.parametrize("seed", range(3))
def test_tiers_give_the_same_bits(seed, optimizer):
    tables = placed_models.random_tables(seed)
    params = hugectr.CreateOptimizer(
        hugectr.Optimizer_t[optimizer], update_type=hugectr.Update_t.Local
    )
    plain = placed_models.make_model(tables, [[0]], params, device=DEVICE)
    losses = course(plain)
    refused = []
    for budget in ("2MB", "600KB", 0):  # of all tables together
        tiers = placed_models.make_model(
            tables, [[0]], params, device=DEVICE, memory=hugectr.Memory(device=budget)
        )
        try:
            found = course(tiers)
        except hugectr.OutOfMemory:  # two batches need more
            refused.append(budget)
            continue
        assert found == losses
        assert_same(tiers, plain)
    assert len(refused) < 2


@pytest.mark.parametrize("name", LIVES)
def test_rows_go_and_come_as_on_the_cpu(name):
    data = stream(np.random.default_rng(11), STEPS)
    models = [build(data, LIVES[name], device=device) for device in ("cpu", DEVICE)]
    for _ in batches(data, STEPS):
        for model in models:
            assert model.train()
        for on_cpu, on_gpu in zip(*map(rows_of, models), strict=True):
            np.testing.assert_array_equal(on_gpu["keys"], on_cpu["keys"])
            np.testing.assert_array_equal(on_gpu["scores"], on_cpu["scores"])
            np.testing.assert_allclose(on_gpu["vectors"], on_cpu["vectors"], rtol=1e-4, atol=1e-6)
    for a, b in zip(*(model.table_stats() for model in models), strict=True):
        assert [a[k] for k in ("rows", "admitted", "refused", "evicted")] == [
            b[k] for k in ("rows", "admitted", "refused", "evicted")
        ]


@pytest.mark.parametrize("seed", range(4))
def test_placements_on_one_gpu(seed):
    tables = placed_models.random_tables(seed)
    on_cpu = placed_models.make_model(tables, [[0]], device="cpu")
    on_gpu = placed_models.make_model(tables, [[0]], device=DEVICE)
    np.testing.assert_allclose(course(on_gpu), course(on_cpu), rtol=1e-5)


@pytest.mark.parametrize("more", [{}, {"max_rows": 30, "evict": "lru", "evict_every": 2}])
def test_direct_tables_are_the_hashed_ones(more):
    one_hot = test_one_hot_embeddings
    data = one_hot.one_hot_data(np.random.default_rng(7))
    direct, hashed = (
        one_hot.make(data, kind, device=DEVICE, **more)
        for kind in (one_hot.ONE_HOT, one_hot.HASH[one_hot.ONE_HOT])
    )
    assert course(direct) == course(hashed)
    assert_same(direct, hashed)
    for evicted in ("rows", "evicted"):
        assert direct.table_stats()[0][evicted] == hashed.table_stats()[0][evicted]


def test_keys_outside_of_direct_tables_are_named():
    one_hot = test_one_hot_embeddings
    data = one_hot.one_hot_data(np.random.default_rng(7))
    keys = data.sparse["keys"][0]
    keys[7 * len(one_hot.SIZES) + 1] = 47
    model = one_hot.make(data, one_hot.ONE_HOT, device=DEVICE)
    with pytest.raises(hugectr.InvalidArgument, match="sample 7, slot 1 of the batch has the key"):
        model.train()
    assert model.table_stats()[0]["rows"] == 0
