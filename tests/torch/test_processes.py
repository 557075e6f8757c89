# SPDX-License-Identifier: Apache-2.0
"""Tables shared by several processes, beside a dense part under DDP, against plain PyTorch."""

import pytest
import torch
import torch.distributed as dist
from process_jobs import generator, job_device, run_job
from torch.nn.parallel import DistributedDataParallel
from torch_optimizers import optimizers

import hugectr.torch as ht

pytestmark = pytest.mark.gpus(2)

ROWS, STEPS = 60, 100
DIMS = {"item": 8, "user": 5, "shop": 3}


class Plain(torch.nn.Module):
    def __init__(self, mode, sparse):
        super().__init__()
        self.tables = torch.nn.ModuleDict(
            {
                name: torch.nn.EmbeddingBag(
                    ROWS, dim, mode=mode, sparse=sparse, include_last_offset=True
                )
                for name, dim in DIMS.items()
            }
        )

    def forward(self, batch):
        return torch.cat([self.tables[name](*batch[name]) for name in DIMS], dim=1)


def bags(random, samples, most=4):
    lengths = torch.randint(0, most, (samples,), generator=random)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    return torch.randint(0, ROWS, (int(offsets[-1]),), generator=random), offsets


def batch_of(random, samples):
    label = torch.randint(0, 2, (samples, 1), generator=random).float()
    return {name: bags(random, samples) for name in DIMS}, label


def collection_of(mode, optimizer, placement="by_key", kind=ht.EmbeddingBagCollection, **more):
    tables = [
        ht.TableConfig(name, dim, pooling=mode, placement=placement) for name, dim in DIMS.items()
    ]
    return kind(tables, optimizer, device=job_device(), **more)


def loss_of(logits, label):
    """The mean, and 0 where there is no sample."""
    total = torch.nn.functional.binary_cross_entropy_with_logits(logits, label, reduction="sum")
    return total / max(len(label), 1)


def average_of_processes(weights):
    """What DDP does to sparse gradients, by dense messages.

    DDP has gloo sum them, in torch 2.14.1 with two threads that write the name of what they have
    done into one string: now and then it is freed twice, and the process ends in a damaged heap.
    """
    for weight in weights:
        gradient = weight.grad.coalesce()
        touched = torch.zeros(len(weight), dtype=torch.int64, device=weight.device)
        touched[gradient.indices()[0]] = 1
        total = gradient.to_dense()
        for each in (touched, total):
            dist.all_reduce(each)
        rows = touched.nonzero()[:, 0]
        mean = total[rows] / dist.get_world_size()
        weight.grad = torch.sparse_coo_tensor(rows[None], mean, weight.shape, check_invariants=True)


def train_beside_plain_tables(folder, kind, mode, placement, samples):
    """Training beside nn.EmbeddingBag as DDP does it; ``samples``: of each process's batches."""
    rank = dist.get_rank()
    ours, theirs = optimizers(kind)
    plain = Plain(mode, sparse=kind == "adam")
    collection = collection_of(mode, ours, placement)
    for name in DIMS:
        ht.import_embedding_bag(collection, plain.tables[name], name)
    wrapped = plain if kind == "adam" else DistributedDataParallel(plain)
    heads = [torch.nn.Linear(sum(DIMS.values()), 1) for _ in range(2)]
    heads[1].load_state_dict(heads[0].state_dict())
    heads = [DistributedDataParallel(head) for head in heads]
    dense = [torch.optim.SGD(head.parameters(), lr=0.1) for head in heads]
    sparse = [theirs(wrapped.parameters()), collection.optimizer(lr=0.1)]
    random = generator(3 + rank)

    def batches():
        for step in range(STEPS):
            yield batch_of(random, samples[rank][step % len(samples[rank])])

    steps = 0
    for batch, label in ht.until_all_end(batches(), collection, batch_of(random, 0)):
        steps += 1
        wanted, found = wrapped(batch), collection(batch).values()
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
        losses = [
            loss_of(head(vectors), label)
            for head, vectors in zip(heads, (wanted, found), strict=True)
        ]
        torch.testing.assert_close(losses[1], losses[0], rtol=1e-5, atol=1e-5)
        for loss, each, rows in zip(losses, dense, sparse, strict=True):
            each.zero_grad()
            rows.zero_grad()
            loss.backward()
            if rows is sparse[0] and wrapped is plain:
                average_of_processes(plain.parameters())
            each.step()
            rows.step()
    for name in DIMS:
        found = ht.export_embedding_bag(collection, ROWS, name)
        wanted = plain.tables[name].weight.detach().cpu()
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    held = [int(table.stats()["rows"]) for table in collection._engine.core.tables()]
    return {"steps": steps, "held": held}


@pytest.mark.parametrize(
    ("kind", "mode", "placement"),
    [
        ("sgd", "sum", "by_key"),
        ("adam", "mean", "by_key"),
        ("adagrad", "mean", "by_slot"),
        ("momentum_of_all_rows", "sum", "by_slot"),
        ("adam", "sum", "replicated"),
    ],
)
def test_losses_outputs_and_rows_are_those_of_plain_tables(tmp_path, kind, mode, placement):
    results = run_job(
        train_beside_plain_tables,
        tmp_path,
        kind=kind,
        mode=mode,
        placement=placement,
        samples=[[16, 0, 9], [16, 5]],
    )
    assert [result["steps"] for result in results] == [STEPS, STEPS]
    held = [result["held"] for result in results]
    if placement == "by_key":
        assert held == [[30] * 3, [30] * 3]
    elif placement == "replicated":
        assert held == [[60] * 3, [60] * 3]
    else:
        assert held == [[60, 0, 60], [0, 60, 0]]


def sharded_by(module):
    """FSDP2 where torch has it (2.6 and later), else DDP."""
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        return DistributedDataParallel(module), "DDP"
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh(job_device().type, (dist.get_world_size(),))
    for each in module.heads:
        fully_shard(each, mesh=mesh)
    return fully_shard(module, mesh=mesh), "FSDP2"


class Wide(torch.nn.Module):
    """A dense part that holds the tables, as models do."""

    def __init__(self, tables):
        super().__init__()
        self.tables = tables
        width = sum(DIMS.values())
        self.heads = torch.nn.Sequential(
            torch.nn.Linear(width, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)
        )

    def forward(self, batch):
        found = self.tables(batch)
        return self.heads(found if isinstance(found, torch.Tensor) else found.values())


def train_in_shards(folder):
    """FSDP2 around a model with our tables, against DDP around one with plain tables."""
    ours, theirs = optimizers("adagrad")
    plain, collection = Plain("sum", sparse=False), collection_of("sum", ours)
    for name in DIMS:
        ht.import_embedding_bag(collection, plain.tables[name], name)
    models = [Wide(plain), Wide(collection)]
    models[1].heads.load_state_dict(models[0].heads.state_dict())
    parallel, how = sharded_by(models[1])
    wrapped = [DistributedDataParallel(models[0]), parallel]
    dense = [torch.optim.SGD(model.heads.parameters(), lr=0.1) for model in models]
    sparse = [theirs(plain.parameters()), collection.optimizer(lr=0.1)]
    random = generator(3 + dist.get_rank())
    for step in range(STEPS):
        batch, label = batch_of(random, 8 + step % 3 * dist.get_rank())
        losses = [loss_of(model(batch), label) for model in wrapped]
        torch.testing.assert_close(losses[1], losses[0], rtol=1e-5, atol=1e-5)
        for loss, each, rows in zip(losses, dense, sparse, strict=True):
            each.zero_grad()
            rows.zero_grad()
            loss.backward()
            each.step()
            rows.step()
    for name in DIMS:
        found = ht.export_embedding_bag(collection, ROWS, name)
        wanted = plain.tables[name].weight.detach().cpu()
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    return how


def test_a_dense_part_in_shards(tmp_path):
    from torch.torch_version import TorchVersion

    how = "FSDP2" if TorchVersion(torch.__version__) >= (2, 6) else "DDP"
    assert run_job(train_in_shards, tmp_path) == [how, how]
