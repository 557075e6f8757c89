# SPDX-License-Identifier: Apache-2.0
"""All ways to look up and to train on two processes, against one that has the batches of both."""

import pytest
import torch
import torch.distributed as dist
from process_jobs import generator, job_device, run_job

import hugectr
import hugectr.torch as ht

pytestmark = pytest.mark.gpus(2)

TABLES = [
    ("a", 4, ("a", "b"), "sum", "by_key"),
    ("c", 6, ("c",), "mean", "by_slot"),
    ("e", 4, ("e",), "mean", "replicated"),
]
FEATURES = "abce"


def pair(kind, optimizer, **more):
    """A shared collection, and one of this process alone."""
    alone = [dist.new_group([rank]) for rank in range(dist.get_world_size())]
    tables = [
        ht.TableConfig(name, dim, features, pooling, placement=placement)
        for name, dim, features, pooling, placement in TABLES
    ]
    return [
        kind(tables, optimizer, device=job_device(), seed=5, process_group=group, **more)
        for group in (None, alone[dist.get_rank()])
    ]


def batches_of(random, weighted=False):
    """A batch of each process: of unlike sizes, with keys of which many are in both."""
    found = []
    for samples in (6, 9):
        batch = {}
        for name in FEATURES:
            lengths = torch.randint(0, 4, (samples,), generator=random)
            offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
            keys = torch.randint(-25, 25, (int(offsets[-1]),), generator=random)
            batch[name] = (keys * 2**40 // 3, offsets)
            if weighted:
                batch[name] += (torch.rand(len(keys), generator=random),)
        found.append(batch)
    return found


def pooled(collection, batch):
    return collection(batch).values()


def apart(collection, batch):
    return torch.cat([each.values().reshape(-1) for each in collection(batch).values()])


def by_feature(collection, batch):
    found = collection(batch)
    return torch.cat([found[name] for name in "ceab"], dim=1)


def run(shared, alone, ask, steps=6, weighted=False, clip=None, tolerance=1e-5, ahead=False):
    """Trains both; the mean of the processes' losses is the loss of the one that is alone."""
    rank = dist.get_rank()
    rows = [each.optimizer(lr=0.3) for each in (shared, alone)]
    random = generator(7)
    steps = [batches_of(random, weighted) for _ in range(steps)]
    own = [batches[rank] for batches in steps]
    if ahead:
        own = [planned for _, planned in ht.pipeline(own, shared)]
    for batch, batches in zip(own, steps, strict=True):
        found = ask(shared, batch)
        every = [ask(alone, batch) for batch in batches]
        torch.testing.assert_close(found, every[rank], rtol=tolerance, atol=tolerance)
        for each in rows:
            each.zero_grad()
        found.float().cos().sum().backward()
        (sum(each.float().cos().sum() for each in every) / 2).backward()
        if clip:
            norms = [torch.nn.utils.clip_grad_norm_(each.rows, clip) for each in rows]
            torch.testing.assert_close(*norms)
            assert norms[0] > clip
        for each in rows:
            each.step()
    same_rows(shared, alone, tolerance)
    same_replicas(shared)


def same_rows(shared, alone, tolerance=1e-5):
    for name, *_ in TABLES:
        found, wanted = shared.rows(name).state(), alone.rows(name).state()
        assert len(shared.rows(name)) == len(wanted["keys"]) > 20
        assert torch.equal(found["keys"], wanted["keys"])
        for mine, other in zip(
            [found["vectors"], *found["states"]],
            [wanted["vectors"], *wanted["states"]],
            strict=True,
        ):
            torch.testing.assert_close(mine, other, rtol=tolerance, atol=tolerance)


def same_replicas(shared):
    """Who has all rows has the same bits as the others who do."""
    own = shared._engine.core.tables()[2].dump(with_states=True)
    every = [None] * dist.get_world_size()
    dist.all_gather_object(
        every,
        (
            own["keys"].tobytes(),
            own["vectors"].tobytes(),
            [state.tobytes() for state in own["states"]],
        ),
    )
    assert every[0] == every[1]
    assert len(own["keys"]) == len(shared.rows("e"))


def all_kinds(folder):
    bags, sequences = ht.EmbeddingBagCollection, ht.EmbeddingCollection
    optimizer = hugectr.CreateOptimizer(hugectr.Optimizer_t.AdaGrad, hugectr.Update_t.Local)
    shared, alone = pair(bags, optimizer)
    run(shared, alone, pooled)
    check_reading(shared, alone)
    run(*pair(bags, optimizer), by_feature, ahead=True)
    run(*pair(sequences, optimizer), apart)
    # SGD does not magnify what clipping and 16 bits round.
    run(*pair(bags, None), pooled, clip=0.1)
    run(*pair(bags, None, dtype=torch.bfloat16), pooled, tolerance=2e-2)
    shared, alone = pair(bags, optimizer)
    compiled = torch.compile(
        lambda batch: shared(batch).values() * 2, fullgraph=True, backend="eager"
    )
    run(shared, alone, lambda it, batch: compiled(batch) if it is shared else pooled(it, batch) * 2)
    for mode in ("weighted", "fused"):
        tables = [
            ht.TableConfig("a", 4, ["a", "b"]),
            ht.TableConfig("c", 6),
            ht.TableConfig("e", 4, placement="replicated"),
        ]
        groups = [None, dist.new_group([0]), dist.new_group([1])]
        both = [
            bags(
                tables,
                seed=5,
                is_weighted=mode == "weighted",
                fused=mode == "fused",
                process_group=groups[which],
                device=job_device(),
            )
            for which in (0, 1 + dist.get_rank())
        ]
        run(*both, pooled, weighted=mode == "weighted")


def check_reading(shared, alone):
    """Lookups without training, and rows read, written and erased."""
    batch = batches_of(generator(8))[dist.get_rank()]
    with torch.no_grad():
        torch.testing.assert_close(pooled(shared, batch), pooled(alone, batch))
        unknown = {name: torch.tensor([[10**6]]) for name in FEATURES}
        assert not pooled(shared, unknown).any()
    for name in "ae":
        keys = shared.rows(name).read()[0]
        mine = keys[dist.get_rank() :: 3]
        for each in zip(shared.rows(name).lookup(mine), alone.rows(name).lookup(mine), strict=True):
            torch.testing.assert_close(*each)
        for each in (shared, alone):
            assert each.rows(name).erase(keys[:4]) == 4
            each.rows(name).write([-7, 1, 2], torch.arange(12.0).reshape(3, 4))
    same_rows(shared, alone)
    state = shared.state_dict()
    alone.rows("a").erase(keys)
    alone.load_state_dict(state)
    same_rows(shared, alone)
    shared.rows("a").erase(keys)
    shared.load_state_dict(state)
    same_rows(shared, alone)


def test_all_kinds_equal_one_process(tmp_path):
    run_job(all_kinds, tmp_path)


def save_or_load(folder, what, batch):
    """Trains a step and saves, or loads and trains another, or both."""
    adam = hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local)
    collection = ht.EmbeddingBagCollection(
        [ht.TableConfig(n, d, f, p, placement=place) for n, d, f, p, place in TABLES],
        adam,
        seed=5,
        device=job_device(),
    )
    if "load" in what:
        path = max((folder.parent / "saved").iterdir())
        collection.load(path)
    states = [{name: collection.rows(name).state() for name, *_ in TABLES}]
    rows = collection.optimizer(lr=0.1)
    random = generator(batch)
    for _ in range(3):
        keys = batches_of(random)[1]
        rows.zero_grad()
        collection(keys).values().cos().sum().backward()
        rows.step()
    collection.save(folder.parent / what)
    return [*states, {name: collection.rows(name).state() for name, *_ in TABLES}]


def check_same(found, wanted, **tolerance):
    for name, *_ in TABLES:
        assert len(wanted[name]["keys"]) > 10
        assert torch.equal(found[name]["keys"], wanted[name]["keys"])
        for part in ("vectors", "states"):
            torch.testing.assert_close(found[name][part], wanted[name][part], **tolerance)


def test_checkpoints_go_between_any_numbers_of_processes(tmp_path):
    ends = []
    for saved, loaded in ((2, 1), (1, 2)):
        folder = tmp_path / str(saved)
        first = run_job(save_or_load, folder / "job", saved, what="saved", batch=1)
        after = run_job(save_or_load, folder / "more", loaded, what="loaded", batch=2)
        for job in (first, after):
            for process in job:  # each reads the rows of all
                check_same(process[1], job[0][1], rtol=0, atol=0)
        for every in after:
            check_same(every[0], first[0][1], rtol=0, atol=0)
        ends.append(after[0][1])
    check_same(*ends, rtol=1e-5, atol=1e-6)
