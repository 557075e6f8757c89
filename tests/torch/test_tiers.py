# SPDX-License-Identifier: Apache-2.0
"""Tables over tiers against tables on the device: the same rows and vectors, to the bit."""

import pytest
import torch
import torch.distributed as dist
from process_jobs import generator, job_device, run_job
from torch_optimizers import optimizers

import hugectr
import hugectr.torch as ht
from hugectr.checkpoints.folder import verify
from hugectr.checkpoints.manifest import read_manifest

DIMS = {"item": 8, "user": 5}
SAMPLES, STEPS = 24, 40
#: Budgets, of tables without states: places for 200 to 400 rows of 900 and more.
MEMORIES = {
    "cached": {"device": 9_600},
    "host": {"device": 0},
    "disk": {"device": 9_600, "host": 28_000, "disk": "{folder}:50MB"},
}
#: How many times as long a row with its states is.
LENGTHS = {"sgd": 1, "adagrad": 2, "adam_of_touched_rows": 3}


def pair(kind, memory, optimizer, device, folder, length=1, **more):
    """A collection over tiers, and one without."""
    fields = {
        name: size.format(folder=folder) if name == "disk" else size * length
        for name, size in memory.items()
    }
    found = []
    for own in (hugectr.Memory(**fields), None):
        tables = [
            ht.TableConfig(name, dim, pooling="mean" if name == "user" else "sum", memory=own)
            for name, dim in DIMS.items()
        ]
        found.append(kind(tables, optimizer, device=device, seed=4, **more))
    return found


def batches(device, steps, seed=1):
    random = generator(seed)
    for _ in range(steps):
        batch = {}
        for name in DIMS:
            lengths = torch.randint(0, 4, (SAMPLES,), generator=random)
            offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
            spread = torch.rand(int(offsets[-1]), generator=random).pow(3) * 6000
            batch[name] = (spread.long() * (10**9 + 7)).to(device), offsets.to(device)
        yield batch


def same(collections):
    for name in DIMS:
        tiered, plain = (each.rows(name).state() for each in collections)
        assert len(plain["keys"]) > 100
        assert torch.equal(tiered["keys"], plain["keys"])
        assert torch.equal(tiered["vectors"], plain["vectors"])
        for mine, other in zip(tiered["states"], plain["states"], strict=True):
            assert torch.equal(mine, other)


def train(both, every):
    """Steps of one batch and of two, lookups between them, vectors that are held or forgotten."""
    rows = [each.optimizer(lr=0.1) for each in both]
    held = []
    streams = [ht.pipeline(every, each) for each in both]
    for step, ((_, first), (_, second)) in enumerate(zip(*streams, strict=True)):
        outputs = [both[0](first).values(), both[1](second).values()]
        assert torch.equal(*outputs)
        for output in outputs:
            output.cos().sum().backward()
        if step % 5 == 1:  # another batch, for the same update
            for each in both:
                each(every[-1 - step]).values().sin().sum().backward()
        if step % 7 == 2:  # gradients that no update follows
            for each in rows:
                each.zero_grad()
        if step % 4 == 3:  # vectors that are held beyond the step, of a batch that does not train
            held = [each(every[(step * 5) % STEPS]).values() for each in both]
        if step % 6 == 5:
            with torch.no_grad():
                found = [each(every[(step * 3) % STEPS]).values() for each in both]
            assert torch.equal(*found)
        for each in rows:
            each.step()
            each.zero_grad()
        if step == STEPS // 2:
            same(both)
    assert torch.equal(*held)


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("kind", ["sgd", "adagrad", "adam_of_touched_rows"])
def test_rows_and_vectors_are_those_of_the_device(device, tmp_path, kind, memory):
    local = hugectr.Update_t.Local
    optimizer = {
        "sgd": None,
        "adagrad": hugectr.CreateOptimizer(hugectr.Optimizer_t.AdaGrad, local),
        "adam_of_touched_rows": hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, local),
    }[kind]
    made = ht.EmbeddingBagCollection, MEMORIES[memory], optimizer, device
    both = pair(*made, tmp_path, LENGTHS[kind])
    train(both, list(batches(device, STEPS)))
    same(both)
    if memory != "host":
        for table in both[0]._engine.core.tables():
            assert table.stats()["misses"] > 20
    fewer = pair(*made, tmp_path / "b", LENGTHS[kind])
    both[0].save(tmp_path / "saved")
    fewer[0].load(tmp_path / "saved")
    fewer[1].load_state_dict(both[1].state_dict())
    same(fewer)
    for name in DIMS:
        keys = both[1].rows(name).read()[0][::3]
        for each in both:
            assert each.rows(name).erase(keys) == len(keys)
    same(both)


def test_rows_that_do_not_fit_are_refused_and_nothing_is_lost(device, tmp_path):
    memory = {"device": 4_000}
    both = pair(ht.EmbeddingBagCollection, memory, None, device, tmp_path)
    rows = [each.optimizer(lr=0.1) for each in both]

    def train(batch):
        for each, own in zip(both, rows, strict=True):
            each(batch).values().sum().backward()
            own.step()
            own.zero_grad()

    small = {name: torch.arange(8, device=device)[:, None] for name in DIMS}
    train(small)
    large = {name: torch.arange(1000, device=device)[:, None] for name in DIMS}
    with pytest.raises(hugectr.OutOfMemory, match="Memory"):
        both[0](large)
    train(small)
    for name in DIMS:
        assert torch.equal(both[0].rows(name).read()[1], both[1].rows(name).read()[1])
    # Gradients of more batches than the device holds: the update is refused, and may be retried.
    for batch in range(12):
        keys = {name: torch.arange(40, device=device)[:, None] + 100 * batch for name in DIMS}
        both[0](keys).values().sum().backward()
    with pytest.raises(hugectr.OutOfMemory, match="Memory"):
        rows[0].step()
    for name in DIMS:
        assert torch.equal(both[0].rows(name).read()[1], both[1].rows(name).read()[1])
    rows[0].zero_grad()
    train(small)
    for name in DIMS:
        assert torch.equal(both[0].rows(name).read()[1], both[1].rows(name).read()[1])


def test_batches_without_end_are_refused(device, tmp_path):
    both = pair(ht.EmbeddingBagCollection, MEMORIES["cached"], None, device, tmp_path)
    every = list(batches(device, 9))
    held = [both[0](batch).values() for batch in every[:8]]
    with pytest.raises(hugectr.InvalidArgument, match="batches whose rows are held"):
        both[0](every[8])
    del held
    both[0](next(batches(device, 1)))


def test_an_optimizer_of_all_rows_is_refused(device, tmp_path):
    ours, _ = optimizers("momentum_of_all_rows")
    with pytest.raises(hugectr.InvalidArgument, match="every row"):
        pair(ht.EmbeddingBagCollection, MEMORIES["cached"], ours, device, tmp_path)


def test_memory_is_checked():
    with pytest.raises(hugectr.InvalidArgument, match="memory"):
        ht.TableConfig("a", 4, memory="8GB")


def train_on_processes(folder):
    """Tiers on each of two processes."""
    device = job_device()
    memory = {"device": 3_600, "host": 10_400, "disk": "{folder}:50MB"}
    both = pair(ht.EmbeddingBagCollection, memory, None, device, folder / "disk")
    rows = [each.optimizer(lr=0.1) for each in both]
    for batch in batches(device, 25, seed=dist.get_rank()):
        outputs = [each(batch).values() for each in both]
        assert torch.equal(*outputs)
        for output, own in zip(outputs, rows, strict=True):
            output.cos().sum().backward()
            own.step()
            own.zero_grad()
    same(both)
    counts = both[0]._engine.core.tables()[0].stats()
    assert counts["misses"] > 0


@pytest.mark.gpus(2)
def test_tiers_of_several_processes(tmp_path):
    run_job(train_on_processes, tmp_path)


def test_checkpoints_of_a_disk_link_its_segments(device, tmp_path):
    """A collection takes it with a disk or without, and so does one whose rows have no states."""
    adam = hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local)
    memory = {"device": 9_600, "host": 28_000, "disk": "{folder}:20MB"}
    made = (ht.EmbeddingBagCollection, memory, adam, device)
    both = pair(*made, tmp_path / "first", length=3)
    train(both, list(batches(device, STEPS)))
    tiered, plain = both
    path = tiered.save(tmp_path / "run")
    manifest = read_manifest(path)
    assert manifest["format"] == 4
    assert any("linked" in table["shards"][0] for table in manifest["tables"])
    verify(path)
    unlinked = read_manifest(plain.save(tmp_path / "unlinked"))
    assert unlinked["format"] == 3
    assert [t["rows"] for t in manifest["tables"]] == [t["rows"] for t in unlinked["tables"]]
    again = pair(*made, tmp_path / "second", length=3)
    for each in again:
        each.load(tmp_path / "run")
    same(again)
    same((again[0], plain))
    without = pair(ht.EmbeddingBagCollection, memory, None, device, tmp_path / "third")
    for each in without:
        each.load(tmp_path / "run")
    for name in DIMS:
        for each in without:
            assert torch.equal(
                each.rows(name).state()["vectors"], plain.rows(name).state()["vectors"]
            )
