# SPDX-License-Identifier: Apache-2.0
"""What a process asks owners for, what it gives others and what it makes of vectors, against plain
Python: processes are played one after the other, messages carried by hand."""

import numpy as np
import pytest
import torch

import hugectr
from hugectr import _core
from hugectr.torch.table_memory import ListedKeys, memory_of, vectors_of

KEYS = [0, 1, 5, 2**62, 2**63 - 2, -1, -2, -7, -(2**63)]
#: d, placement, and whether the combiner is mean.
TABLES = [
    (4, "by_key", False),
    (3, "by_slot", True),
    (4, "replicated", True),
    (4, "by_key", True),
    (3, "replicated", False),
]
ALL = -2
#: Tables as they travel: those of one d together.
ORDER = [0, 2, 3, 1, 4]


@pytest.mark.parametrize("processes", range(1, 9))
def test_owners_are_those_of_unsigned_keys(processes):
    for rank in {0, processes - 1}:
        sharing = Process(rank, processes, torch.device("cpu")).sharing
        for table, (_, placement, _) in enumerate(TABLES):
            assert sharing.on_every_process(table) == (placement == "replicated")
            wanted = [owner_of(table, key, processes) for key in KEYS]
            wanted = [rank if owner == ALL else owner for owner in wanted]
            assert sharing.owners(table, np.array(KEYS)).tolist() == wanted


def test_a_placement_that_is_none_is_named():
    core = Process(0, 2, torch.device("cpu")).core
    placements = ["by_key", "by_slot", "by_column", "by_key", "replicated"]
    with pytest.raises(hugectr.InvalidArgument, match="not by_column"):
        _core.TableSharing(core, placements, 0, 2)


class Process:
    """One of several, with its tables."""

    def __init__(self, rank, processes, device):
        self.rank, self.processes, self.device = rank, processes, device
        self.core = _core.TableCollection(
            [
                {
                    "name": f"t{t}",
                    "embedding_vec_size": d,
                    "combiner": "mean" if mean else "sum",
                    "opt_params": hugectr.CreateOptimizer(
                        hugectr.Optimizer_t.SGD, hugectr.Update_t.Local
                    ).to_spec(),
                }
                for t, (d, _, mean) in enumerate(TABLES)
            ],
            device.type,
            seed=3,
        )
        placements = [placement for _, placement, _ in TABLES]
        self.sharing = _core.TableSharing(self.core, placements, rank, processes)

    def ask(self, batch):
        self.batch = batch
        keys = sum(len(each) for each, _ in batch)
        bags = sum(
            len(offsets) - 1 for (_, offsets), (*_, mean) in zip(batch, TABLES, strict=True) if mean
        )
        room = self.sharing.room(keys, bags)
        self.room = torch.zeros(room, dtype=torch.int32, device=self.device)
        self.distinct = torch.zeros(keys, dtype=torch.int64, device=self.device)
        memory = ListedKeys(batch).memory(), memory_of(self.distinct), memory_of(self.room)
        for beside in (False, True, True):  # the second by a thread, and forgotten
            self.shared = self.sharing.ask(*memory, 0, beside, batch)
        self.sharing.count(self.shared)
        self.sharing.count(self.shared)

    def messages(self, sizes):
        return [
            torch.full((sum(sent), d), torch.nan, device=self.device)
            for (sent, _), d in zip(sizes, self.sharing.groups, strict=True)
        ]


def batch_of(generator, samples, device, least=-6, end=6):
    batch = []
    for _ in TABLES:
        lengths = torch.randint(0, 3, (samples,), generator=generator)
        offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
        keys = torch.randint(least, end, (int(offsets[-1]),), generator=generator)
        batch.append((keys.to(device), offsets.to(device, torch.int32)))
    return batch


def carried(every, messages, sizes):
    """What each process gets, of messages that it and the others send."""
    parts = [part.split(sent) for part, (sent, _) in zip(messages, sizes, strict=True)]
    came = []
    for rank, (_, taken) in enumerate(sizes):
        came.append(torch.cat([part[rank] for part in parts]))
        assert [len(part[rank]) for part in parts] == taken
    assert len(came) == len(every)
    return came


def carried_groups(every, messages, sizes):
    groups = range(len(every[0].sharing.groups))
    by_group = [carried(every, [m[g] for m in messages], [s[g] for s in sizes]) for g in groups]
    return [[by_group[g][rank] for g in groups] for rank in range(len(every))]


def memories(tensors):
    return [memory_of(each) for each in tensors]


def owner_of(table, key, processes):
    by_key, by_slot = key % 2**64 % processes, table % processes
    return {"by_key": by_key, "by_slot": by_slot, "replicated": ALL}[TABLES[table][1]]


def asked(process):
    """Checks how many keys a process asks for, and which: those that go out to each, as it says.

    Keys: by process, table as it travels, value; those of tables that are everywhere to all.
    """
    keys_to, counts = [], []
    for receiver in range(process.processes):
        for table in ORDER:
            distinct = sorted(set(process.batch[table][0].tolist()))
            own = [k for k in distinct if owner_of(table, k, process.processes) in (receiver, ALL)]
            keys_to += own
            counts.append(len(own))
    assert list(process.shared.wanted) == counts
    return counts, keys_to


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_keys_of_ever_more_bits(device, processes):
    generator = torch.Generator().manual_seed(processes)
    process = Process(processes - 1, processes, device)
    for bits in (3, 24, 20, 25, 40, 58, 61, 62, 8):
        process.ask(batch_of(generator, 50, device, 2**bits - 9, 2**bits + 9))
        every_key(process)
    process.ask(batch_of(generator, 50, device, -(2**63), -(2**63) + 9))
    every_key(process)


def every_key(process):
    """Checks the keys of all sections, each once."""
    _, keys_to = asked(process)
    found = process.distinct[: len(keys_to)]
    if process.sharing.copies_to_all:
        found = torch.zeros(len(keys_to), dtype=torch.int64, device=process.device)
        memory = memory_of(process.distinct), memory_of(found)
        process.sharing.copy_to_all(process.shared, *memory)
    assert found.tolist() == keys_to


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("samples", [0, 1, 40])
def test_what_travels(device, processes, samples):
    generator = torch.Generator().manual_seed(samples)
    every = [Process(rank, processes, device) for rank in range(processes)]
    for each in every:
        each.ask(batch_of(generator, samples + each.rank % 2, device))

    wanted, sent = zip(*[asked(each) for each in every], strict=True)
    for each in every:
        each.sharing.answer(each.shared, [n for counts in wanted for n in counts])
    sizes = [each.sharing.keys(each.shared) for each in every]
    messages = []
    for each, (out, _), keys_to in zip(every, sizes, sent, strict=True):
        message = each.distinct[: sum(out)]
        if each.sharing.copies_to_all:
            message = torch.zeros(sum(out), dtype=torch.int64, device=device)
            each.sharing.copy_to_all(each.shared, memory_of(each.distinct), memory_of(message))
        assert message.tolist() == keys_to
        messages.append(message)
    for each, keys in zip(every, carried(every, messages, sizes), strict=True):
        each.came = keys
        each.sharing.plan(each.shared, memory_of(keys))

    # Vectors of rows, which no process has but the owner, and of bags.
    sizes = [each.sharing.vectors(each.shared) for each in every]
    messages = [each.messages(size) for each, size in zip(every, sizes, strict=True)]
    for each, rows in zip(every, messages, strict=True):
        each.sharing.give(each.shared, memories(rows))
    vectors = carried_groups(every, messages, sizes)
    values = {}
    for table, (d, *_) in enumerate(TABLES):
        keys = torch.arange(-6, 6, device=device)
        offsets = torch.arange(len(keys) + 1, dtype=torch.int32, device=device)
        single = [(keys, offsets) if t == table else none(device) for t in range(len(TABLES))]
        rows = torch.zeros(len(keys), d, device=device)
        outputs = [
            rows if t == table else torch.zeros(1, TABLES[t][0], device=device) for t in range(5)
        ]
        core = Process(0, 1, device).core
        token = core.plan(ListedKeys(single).memory())
        core.forward(token, [vectors_of(x) for x in outputs])
        values[table] = dict(zip(keys.tolist(), rows.cpu().double(), strict=True))
    for each, came in zip(every, vectors, strict=True):
        outputs = [
            torch.full((len(offsets) - 1, d), torch.nan, device=device)
            for (_, offsets), (d, *_) in zip(each.batch, TABLES, strict=True)
        ]
        each.sharing.pool(each.shared, memories(came), [vectors_of(x) for x in outputs])
        for table, (keys, offsets) in enumerate(each.batch):
            for bag in range(len(offsets) - 1):
                own = keys[offsets[bag] : offsets[bag + 1]].tolist()
                total = sum((values[table][k] for k in own), torch.zeros(TABLES[table][0]).double())
                scale = 1 / max(len(own), 1) if TABLES[table][2] else 1
                torch.testing.assert_close(outputs[table][bag].cpu().double(), total * scale)

    # Gradients: sums by row, to the owner; table 3 has none.
    sizes = [each.sharing.gradients(each.shared) for each in every]
    messages = [each.messages(size) for each, size in zip(every, sizes, strict=True)]
    sums = [{} for _ in TABLES]
    for each, rows in zip(every, messages, strict=True):
        gradients = [
            torch.randn(len(offsets) - 1, d, generator=generator).to(device)
            for (_, offsets), (d, *_) in zip(each.batch, TABLES, strict=True)
        ]
        given = [None if t == 3 else vectors_of(g) for t, g in enumerate(gradients)]
        each.sharing.sum_gradients(each.shared, given, 0.5, memories(rows))
        for table, (keys, offsets) in enumerate(each.batch):
            for bag in range(len(offsets) - 1):
                own = keys[offsets[bag] : offsets[bag + 1]].tolist()
                scale = 1 / max(len(own), 1) if TABLES[table][2] else 1
                for key in own if table != 3 else ():
                    before = sums[table].get(key, 0)
                    own_part = 0.5 * scale * gradients[table][bag].cpu().double()
                    sums[table][key] = before + own_part
    for each, came in zip(every, carried_groups(every, messages, sizes), strict=True):
        each.sharing.accumulate(each.shared, memories(came))
        each.core.step([1.0] * len(TABLES))
        for table, held in enumerate(each.core.tables()):
            found = held.dump(with_states=False)
            for key, vector in zip(found["keys"].tolist(), found["vectors"], strict=True):
                assert owner_of(table, key, processes) in (each.rank, ALL)
                wanted_row = values[table][key] - sums[table].get(key, 0)
                np.testing.assert_allclose(vector, wanted_row, rtol=1e-5, atol=1e-5)
    for table, (_, placement, _) in enumerate(TABLES):
        tables = [each.core.tables()[table].dump(with_states=False) for each in every]
        keys = {key for each in every for key in each.batch[table][0].tolist()}
        if placement == "replicated":
            for one in tables:
                assert set(one["keys"].tolist()) == keys
                np.testing.assert_array_equal(one["vectors"], tables[0]["vectors"])
        else:
            assert sum(len(one["keys"]) for one in tables) == len(keys)


def none(device):
    return (
        torch.zeros(0, dtype=torch.int64, device=device),
        torch.zeros(2, dtype=torch.int32, device=device),
    )


def test_the_key_of_no_row_is_refused(device):
    offsets = torch.tensor([0, 2], dtype=torch.int32, device=device)
    keys = torch.tensor([3, 2**63 - 1], device=device)
    batch = [(keys, offsets), *[none(device) for _ in TABLES[1:]]]
    process = Process(0, 2, device)
    with pytest.raises(hugectr.InvalidArgument, match="9223372036854775807"):
        process.ask(batch)
