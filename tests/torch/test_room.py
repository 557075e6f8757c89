# SPDX-License-Identifier: Apache-2.0
"""Rows of batches that never train make room for others, whatever is looked up meanwhile."""

import pytest
import torch

import hugectr
import hugectr.torch as ht

ADAGRAD = hugectr.CreateOptimizer(hugectr.Optimizer_t.AdaGrad, hugectr.Update_t.Local)


def bag(device, optimizer=None, **more):
    made = ht.EmbeddingBag(4, optimizer, mode="sum", seed=1, device=device, **more)
    return made, made.optimizer(0.5)


def test_forwards_alone_fill_no_table(device):
    bags, _ = bag(device, max_rows=3)
    for key in range(10):
        bags(torch.tensor([[key]], device=device))
        assert len(bags.rows()) == 0


def test_a_table_that_is_full_says_so_and_has_room_when_batches_are_over(device):
    bags, rows = bag(device, max_rows=2)
    held = bags(torch.tensor([[1], [2]], device=device))
    with pytest.raises(hugectr.OutOfMemory, match="may have 2"):
        bags(torch.tensor([[3]], device=device)).sum().backward()
    held.sum().backward()
    rows.step()
    assert bags.rows().read()[0].tolist() == [1, 2]


def test_a_fused_loop_that_drops_forwards(device):
    bags, _ = bag(device, max_rows=4, fused=True)
    for key in range(100, 140):
        bags(torch.tensor([[key]], device=device))
        bags(torch.tensor([[1]], device=device)).sum().backward()
    assert bags.rows().read()[0].tolist() == [1]


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize(("fused", "accumulated"), [(False, 1), (False, 3), (True, 1)])
@pytest.mark.parametrize(("slack", "places"), [(40, 0), (0, 0), (40, 1_500)])
def test_batches_that_are_left_out_leave_nothing(device, ahead, fused, accumulated, slack, places):
    """Against a collection that sees only the others; with room for little more than what trains,
    with any room, and over tiers with bytes for few of the rows on the device."""
    generator = torch.Generator().manual_seed(7)
    tables = ("a", "b")

    def batch(step):
        least, most = step // 4, step // 2 + 12  # old keys, and some that are new
        return {
            name: torch.randint(least, most, (5, 2), generator=generator).to(device)
            for name in tables
        }

    steps = 320
    batches = [batch(step) for step in range(steps)]
    trains = (torch.rand(steps, generator=generator) < 0.4).tolist()
    trained = {
        name: {
            int(key) for b, t in zip(batches, trains, strict=True) if t for key in b[name].flatten()
        }
        for name in tables
    }
    most = max(map(len, trained.values()))

    def made(max_rows, memory=None):
        configs = [ht.TableConfig(name, 4, max_rows=max_rows, memory=memory) for name in tables]
        bags = ht.EmbeddingBagCollection(configs, ADAGRAD, device=device, seed=3, fused=fused)
        return bags, bags.optimizer(0.3)

    memory = hugectr.Memory(device=places) if places else None
    bags, rows = made(most + slack if slack else 0, memory)
    alone, alone_rows = made(0)
    left = 0
    given = ht.pipeline(batches, bags) if ahead else zip(batches, batches, strict=True)
    for step, (seen, looked_up) in enumerate(given):
        vectors = bags(looked_up).values()
        if not trains[step]:
            continue
        wanted = alone(seen).values()
        torch.testing.assert_close(vectors, wanted, rtol=0, atol=0)
        for found in (vectors, wanted):
            found.cos().sum().backward()
        left += 1
        if left % accumulated == 0:
            for each in (rows, alone_rows):
                if not fused:
                    each.step()
                    each.zero_grad()
    for name in tables:
        for mine, other in zip(bags.rows(name).read(), alone.rows(name).read(), strict=True):
            torch.testing.assert_close(mine, other, rtol=0, atol=0)
        assert len(bags.rows(name)) > 40
    there = bags._engine.core.tables()[0].stats()["rows"]
    assert there == len(bags.rows("a"))
