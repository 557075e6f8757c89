# SPDX-License-Identifier: Apache-2.0
"""Tables that travel together give what each gives alone (HUGECTR_GROUP=0), with less work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import hugectr
from hugectr import _core
from hugectr.data import MemoryDataset, from_arrays

BATCH, BATCHES, DENSE = 48, 8, 3
WIDTHS = (4, 16, 32, 64, 128)
DISTRIBUTED, LOCALIZED = (
    hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash,
    hugectr.Embedding_t.LocalizedSlotSparseEmbeddingHash,
)


@dataclass(frozen=True)
class Table:
    """One SparseEmbedding with an input of its own."""

    kind: hugectr.Embedding_t
    rows: int
    slots: int
    d: int
    combiner: str = "sum"
    exchange: str = "auto"
    optimizer: hugectr.OptParamsPy | None = None


def the_26(kinds: tuple[hugectr.Embedding_t, ...], exchange: str = "auto") -> list[Table]:
    """26 row counts, every vector size, one to three slots."""
    return [
        Table(
            kinds[i % len(kinds)],
            3 + i * i,
            1 + i % 3,
            WIDTHS[i % 5],
            ("sum", "mean")[i % 2],
            exchange,
        )
        for i in range(26)
    ]


def random_tables(seed: int) -> list[Table]:
    rng = np.random.default_rng(seed)
    kinds = [DISTRIBUTED, LOCALIZED]
    other = hugectr.CreateOptimizer(hugectr.Optimizer_t.Ftrl, hugectr.Update_t.Local)
    return [
        Table(
            kinds[rng.integers(2)],
            int(rng.integers(2, 400)),
            int(rng.integers(1, 5)),
            int(rng.choice([*WIDTHS, 1, 7])),
            str(rng.choice(["sum", "mean"])),
            str(rng.choice(["auto", "pooled", "unique"])),
            other if rng.random() < 0.3 else None,
        )
        for _ in range(int(rng.integers(2, 12)))
    ]


def data_of(tables: list[Table], seed: int = 5) -> MemoryDataset:
    """Zero to two keys a slot."""
    rng = np.random.default_rng(seed)
    samples = BATCH * BATCHES
    sparse = {}
    for i, table in enumerate(tables):
        counts = rng.integers(0, 3, samples * table.slots)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64)
        sparse[f"keys{i}"] = rng.integers(0, table.rows, int(offsets[-1])), offsets
    dense = rng.random((samples, DENSE), np.float32)
    return from_arrays((rng.random(samples) < 0.4).astype(np.float32), dense, sparse)


def make_model(
    tables: list[Table], devices: int, optimizer: str = "SGD", update: str = "Local"
) -> hugectr.Model:
    data = data_of(tables)
    model = hugectr.Model(
        hugectr.CreateSolver(
            seed=3,
            batchsize=BATCH,
            batchsize_eval=BATCH,
            max_eval_batches=2,
            lr=0.02,
            vvgpu=[list(range(devices))],
            device="cpu",
            i64_input_key=True,
        ),
        hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, source=data, eval_source=data),
        hugectr.CreateOptimizer(hugectr.Optimizer_t[optimizer], hugectr.Update_t[update]),
    )
    inputs = [
        hugectr.DataReaderSparseParam(f"keys{i}", 2, False, table.slots)
        for i, table in enumerate(tables)
    ]
    model.add(hugectr.Input(1, "label", DENSE, "dense", inputs))
    layer, kind = hugectr.DenseLayer, hugectr.Layer_t
    for i, table in enumerate(tables):
        model.add(
            hugectr.SparseEmbedding(
                table.kind,
                1,
                table.d,
                table.combiner,
                f"table{i}",
                f"keys{i}",
                exchange=table.exchange,
                optimizer=table.optimizer,
            )
        )
        width = table.slots * table.d
        model.add(layer(kind.Reshape, [f"table{i}"], [f"flat{i}"], leading_dim=width))
    flat = [f"flat{i}" for i in range(len(tables))]
    model.add(layer(kind.Concat, [*flat, "dense"], ["all"]))
    model.add(layer(kind.InnerProduct, ["all"], ["fc"], num_output=8))
    model.add(layer(kind.ReLU, ["fc"], ["relu"]))
    model.add(layer(kind.InnerProduct, ["relu"], ["logit"], num_output=1))
    model.add(layer(kind.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    return model


def outcome(model: hugectr.Model, steps: int = 10) -> dict[str, np.ndarray]:
    """Losses, the evaluation, and everything that was learned."""
    losses = []
    for _ in range(steps):
        assert model.train()
        losses.append(model.get_current_loss())
    assert model.eval()
    found = {"losses": np.array(losses), "weights": model.session.network.dense_weights()}
    found["evaluated"] = np.array([value for _, value in model.get_eval_metrics()])
    for i, table in enumerate(model.session.tables()):
        bag = table.dump(True)
        for name in ("keys", "slot_ids", "vectors"):
            if bag[name] is not None:
                found[f"table {i} {name}"] = bag[name]
        found |= {f"table {i} state {s}": state for s, state in enumerate(bag["states"])}
    return found


def assert_same(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


@pytest.fixture
def alone(monkeypatch):
    """Models made while it lasts have a group a table."""

    def make(*args, **settings):
        with monkeypatch.context() as patched:
            patched.setenv("HUGECTR_GROUP", "0")
            return make_model(*args, **settings)

    return make


@pytest.mark.parametrize("kinds", [(DISTRIBUTED,), (LOCALIZED,), (DISTRIBUTED, LOCALIZED)])
@pytest.mark.parametrize("devices", [1, 2, 3, 4, 8])
def test_26_tables_are_what_they_are_alone(alone, kinds, devices):
    tables = the_26(kinds)
    together = outcome(make_model(tables, devices))
    assert together["losses"][0] != together["losses"][-1]
    assert_same(together, outcome(alone(tables, devices)))
    assert_same(together, outcome(make_model(tables, devices)))  # and again
    if devices > 1:
        one = outcome(make_model(tables, 1))["losses"]
        np.testing.assert_allclose(together["losses"], one, rtol=1e-5)


@pytest.mark.parametrize("optimizer", ["Adam", "AdaGrad", "Nesterov", "RowWiseAdaGrad"])
@pytest.mark.parametrize("update", ["Local", "Global", "LazyGlobal"])
def test_every_update_is_what_it_is_alone(alone, optimizer, update):
    tables = the_26((DISTRIBUTED, LOCALIZED), "unique")[:12]
    together = outcome(make_model(tables, 2, optimizer, update))
    assert_same(together, outcome(alone(tables, 2, optimizer, update)))


@pytest.mark.parametrize("seed", range(8))
def test_random_models_are_what_they_are_alone(alone, seed):
    tables, devices = random_tables(seed), (1, 2, 3, 4, 6, 8)[seed % 6]
    together = outcome(make_model(tables, devices, "Adam"))
    assert_same(together, outcome(alone(tables, devices, "Adam")))


def work_of_a_step(model: hugectr.Model, steps: int = 6) -> dict[str, float]:
    """What one step, and the plan that is made beside it, hand to streams."""

    def counts() -> dict[str, int]:
        model.get_current_loss()  # the steps are done
        model.table_stats()  # and the plan of the next
        return _core.work_counts()

    for _ in range(2):
        model.train()
    before = counts()
    for _ in range(steps):
        model.train()
    after = counts()
    return {name: (after[name] - before[name]) / steps for name in before}


@pytest.mark.parametrize("exchange", ["pooled", "unique"])
@pytest.mark.parametrize("kinds", [(DISTRIBUTED,), (DISTRIBUTED, LOCALIZED)])
def test_collectives_do_not_grow_with_the_tables(alone, exchange, kinds):
    many, few = the_26(kinds, exchange), the_26(kinds, exchange)[:4]
    grouped = work_of_a_step(make_model(many, 2))["collectives"]
    of_few = work_of_a_step(make_model(few, 2))["collectives"]
    # Of many some do not fit the one exchange and take the other, there and back on two devices.
    assert of_few <= grouped <= of_few + (2 * 2 if exchange == "unique" else 0)
    apart = work_of_a_step(alone(many, 2))["collectives"]
    assert apart - grouped >= 25 * 2 * 2, "two devices, there and back"


@pytest.mark.parametrize("devices", [1, 2])
def test_ops_of_tables_are_one(alone, devices):
    tables = the_26((DISTRIBUTED,), "pooled")
    grouped, apart = (work_of_a_step(make(tables, devices))["ops"] for make in (make_model, alone))
    # Of every table but the first: buckets, lookup in the index, sort, gather and update.
    assert apart - grouped >= 25 * 5 * devices
