# SPDX-License-Identifier: Apache-2.0
"""Random models whose tables are placed in every way."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

import hugectr
from hugectr.data import MemoryDataset, from_arrays

BATCH, BATCHES, DENSE = 48, 8, 3
DISTRIBUTED, LOCALIZED = (
    hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash,
    hugectr.Embedding_t.LocalizedSlotSparseEmbeddingHash,
)
KINDS = ("by_key", "by_slot", "one_device", "replicated", "by_column", "hybrid")


@dataclass(frozen=True)
class Table:
    """One SparseEmbedding with an input of its own, or with those of two."""

    kind: hugectr.Embedding_t
    rows: int
    slots: int
    d: int
    combiner: str = "sum"
    exchange: str = "auto"
    placement: str | None = "by_key"
    inputs: int = 1
    vector_type: str = "float32"


def random_tables(seed: int, kinds: tuple[str, ...] = KINDS) -> list[Table]:
    """Each of the kinds, and some more: any combiner, identity, size and exchange."""
    rng = np.random.default_rng(seed)
    tables = []
    for i in range(len(kinds) + int(rng.integers(0, 4))):
        placement = kinds[i] if i < len(kinds) else str(rng.choice(kinds))
        combiner = str(rng.choice(["sum", "mean", "concat"]))
        localized = placement == "by_slot" or (
            rng.random() < 0.4 and combiner != "concat" and placement != "hybrid"
        )
        if placement == "by_slot" and combiner == "concat":
            combiner = "mean"
        tables.append(
            Table(
                LOCALIZED if localized else DISTRIBUTED,
                int(rng.integers(2, 300)),
                int(rng.integers(1, 4)),
                int(rng.choice([1, 4, 7, 8, 16, 32, 64])),
                combiner,
                str(rng.choice(["auto", "pooled", "unique"])),
                placement,
                1 if localized else int(rng.integers(1, 3)),
            )
        )
    return tables


def placed(tables: list[Table], placement: str) -> list[Table]:
    """The same tables, all placed so where they may be."""
    return [
        table
        if (placement == "by_slot" and (table.kind is DISTRIBUTED or table.combiner == "concat"))
        or (placement == "hybrid" and table.kind is LOCALIZED)
        else replace(table, placement=placement)
        for table in tables
    ]


def placement_of(table: Table) -> hugectr.Placement | str | None:
    """Every third key of a hybrid is frequent, and some that there are not; or counted ones."""
    if table.placement == "counted":
        return "hybrid"
    if table.placement != "hybrid":
        return table.placement
    return hugectr.Placement("hybrid", frequent=range(0, 2 * table.rows, 3))


def names_of(i: int, table: Table) -> list[str]:
    return [f"keys{i}_{n}" for n in range(table.inputs)]


def data_of(tables: list[Table], seed: int = 5) -> MemoryDataset:
    """Zero to two keys a slot."""
    rng = np.random.default_rng(seed)
    samples = BATCH * BATCHES
    sparse = {}
    for i, table in enumerate(tables):
        for name in names_of(i, table):
            counts = rng.integers(0, 3, samples * table.slots)
            offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64)
            sparse[name] = rng.integers(0, table.rows, int(offsets[-1])), offsets
    dense = rng.random((samples, DENSE), np.float32)
    return from_arrays((rng.random(samples) < 0.4).astype(np.float32), dense, sparse)


def make_model(
    tables: list[Table],
    vvgpu: list[list[int]],
    optimizer: str | hugectr.OptParamsPy = "SGD",
    **solver: object,
) -> hugectr.Model:
    data = data_of(tables)
    if isinstance(optimizer, str):
        params = hugectr.CreateOptimizer(hugectr.Optimizer_t[optimizer])
    else:
        params = optimizer
    model = hugectr.Model(
        hugectr.CreateSolver(
            **{
                "seed": 3,
                "batchsize": BATCH,
                "batchsize_eval": BATCH,
                "max_eval_batches": 2,
                "lr": 0.02 if optimizer == "SGD" else 0.002,
                "vvgpu": vvgpu,
                "device": "cpu",
                "i64_input_key": True,
                **solver,
            }
        ),
        hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, source=data, eval_source=data),
        params,
    )
    inputs = [
        hugectr.DataReaderSparseParam(name, 2, False, table.slots)
        for i, table in enumerate(tables)
        for name in names_of(i, table)
    ]
    model.add(hugectr.Input(1, "label", DENSE, "dense", inputs))
    layer, kind = hugectr.DenseLayer, hugectr.Layer_t
    for i, table in enumerate(tables):
        model.add(
            hugectr.SparseEmbedding(
                table.kind,
                0,
                table.d,
                table.combiner,
                f"table{i}",
                names_of(i, table),
                exchange=table.exchange,
                placement=placement_of(table),
                vector_type=table.vector_type,
            )
        )
        vectors = table.slots * table.inputs * (2 if table.combiner == "concat" else 1)
        width = vectors * table.d
        model.add(layer(kind.Reshape, [f"table{i}"], [f"flat{i}"], leading_dim=width))
    flat = [f"flat{i}" for i in range(len(tables))]
    model.add(layer(kind.Concat, [*flat, "dense"], ["all"]))
    model.add(layer(kind.InnerProduct, ["all"], ["fc"], num_output=8))
    model.add(layer(kind.ReLU, ["fc"], ["relu"]))
    model.add(layer(kind.InnerProduct, ["relu"], ["logit"], num_output=1))
    model.add(layer(kind.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    return model


def outcome(model: hugectr.Model, steps: int) -> dict[str, np.ndarray]:
    """Losses, the evaluation, and everything that was learned by this process's tables."""
    losses = []
    for _ in range(steps):
        assert model.train()
        losses.append(model.get_current_loss())
    metrics = dict(model.evaluate())
    found = {"losses": np.array(losses), "weights": model.session.network.dense_weights()}
    found["evaluated"] = np.array([metrics["AUC"]])
    return found | rows_of(model)


def rows_of(model: hugectr.Model) -> dict[str, np.ndarray]:
    found = {}
    for i, table in enumerate(model.session.tables()):
        bag = table.dump(True)
        for name in ("keys", "slot_ids", "vectors"):
            if bag[name] is not None:
                found[f"table {i} {name}"] = bag[name]
        found |= {f"table {i} state {s}": state for s, state in enumerate(bag["states"])}
    return found


def assert_near(
    found: dict[str, np.ndarray], wanted: dict[str, np.ndarray], tolerance: float
) -> None:
    """Keys are the same, numbers are near as a whole."""
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        assert found[name].shape == values.shape, name
        if values.dtype.kind in "iu":
            np.testing.assert_array_equal(found[name], values, err_msg=name)
            continue
        length = max(float(np.linalg.norm(values)), 1e-30)
        distance = float(np.linalg.norm(found[name] - values)) / length
        assert distance <= tolerance, f"{name}: {distance:.1e}"


def assert_copies_are_the_same(model: hugectr.Model, tables: list[Table], devices: int) -> None:
    """Rows of tables on all devices, to the bit."""
    for i, table in enumerate(tables):
        if table.placement != "replicated":
            continue
        handle = model.session.table(i)
        wanted = handle.dump(True)
        for device in range(devices):
            view = handle.view(device)
            keys = view["keys"].copy_to_host()
            slots = view["slot_ids"]
            order = np.lexsort(
                (keys,) if slots is None else (keys, slots.copy_to_host().astype(np.int64))
            )
            np.testing.assert_array_equal(keys[order], wanted["keys"])
            vectors = view["vectors"].copy_to_host()[order]
            assert vectors.tobytes() == wanted["vectors"].tobytes(), f"table {i} on {device}"
            for state, own in zip(view["states"], wanted["states"], strict=True):
                assert state.copy_to_host()[order].tobytes() == own.tobytes()
