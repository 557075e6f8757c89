# SPDX-License-Identifier: Apache-2.0
"""What a plan says before compile() against what the model holds after some steps."""

import numpy as np
import pytest

import hugectr
from hugectr.data import MemoryDataset

DENSE, STEPS = 13, 12

BATCH = 256


def data(slots, keys, rows=BATCH * STEPS, seed=0):
    """Every key comes in every slot, where there are as many samples as keys."""
    rng = np.random.default_rng(seed)
    of_slot = [rng.permutation(rows) % keys for _ in range(slots)]
    return MemoryDataset(
        rng.integers(0, 2, (rows, 1)).astype(np.float32),
        rng.random((rows, DENSE), np.float32),
        {"keys": (np.stack(of_slot, 1).reshape(-1), np.arange(rows * slots + 1))},
    )


def model_of(
    slots=8,
    d=16,
    keys=3000,
    budget=3000,
    embedding="Distributed",
    optimizer="Adam",
    update="Local",
    devices=1,
    exchange="auto",
    width=64,
    mixed=False,
    evaluate=True,
    tables=1,
    batch_norm=False,
    sizes=(),
    resident=0,
    device="cpu",
    wire=None,
    parts=1,
):
    """Not compiled; with a budget of rows a device that training fills."""
    train = data(slots, keys)
    more = {"use_mixed_precision": True, "scaler": 128} if mixed else {}
    solver = hugectr.CreateSolver(
        batchsize=BATCH, batchsize_eval=BATCH // 2, max_eval_batches=1, lr=0.01, seed=1,
        i64_input_key=True, vvgpu=[[*range(devices)]], device=device, wire=wire,
        micro_batches=parts, **more,
    )  # fmt: skip
    reader = hugectr.DataReaderParams(
        hugectr.DataReaderType_t.Norm,
        train,
        eval_source=data(slots, keys, BATCH) if evaluate else "",
        resident_batches=resident,
    )
    model = hugectr.Model(
        solver,
        reader,
        hugectr.CreateOptimizer(hugectr.Optimizer_t[optimizer], hugectr.Update_t[update]),
    )
    t, layer = hugectr.Layer_t, hugectr.DenseLayer
    sparse = hugectr.DataReaderSparseParam("keys", 1, True, slots)
    model.add(hugectr.Input(1, "label", DENSE, "dense", [sparse]))
    kind = hugectr.Embedding_t[f"{embedding}SlotSparseEmbeddingHash"]
    for table in range(tables):
        size = slots * (d + table)
        model.add(
            hugectr.SparseEmbedding(
                kind, 0, d + table, "sum", f"emb{table}", "keys", slot_size_array=list(sizes),
                max_vocabulary_size_per_gpu=0 if sizes else budget, exchange=exchange,
            )
        )  # fmt: skip
        model.add(layer(t.Reshape, [f"emb{table}"], [f"flat{table}"], leading_dim=size))
    wide = [*(f"flat{table}" for table in range(tables)), "dense"]
    model.add(layer(t.Concat, wide, ["x"]))
    model.add(layer(t.InnerProduct, ["x"], ["fc"], num_output=width))
    if batch_norm:
        model.add(layer(t.BatchNorm, ["fc"], ["norm"]))
    model.add(layer(t.ReLU, ["norm" if batch_norm else "fc"], ["relu"]))
    model.add(layer(t.InnerProduct, ["relu"], ["logit"], num_output=1))
    model.add(layer(t.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    return model


def run(model, steps=STEPS, evaluate=True):
    model.compile()
    for _ in range(steps):
        assert model.train()
    if evaluate:
        model.eval()


def held(model):
    """Bytes by owner, as the memory report has them."""
    found = {}
    for owner, _, size in model.memory_report(by_tensor=False):
        name = next(
            (t for t in model._graph.table_names if owner.startswith(f"{t} on")),
            "network" if owner.startswith("network") else owner.split(" on ")[0],
        )
        name = "batches" if name.endswith("batches") else name
        found[name] = found.get(name, 0) + size
    return found


# As many keys as rows that tables may have: training fills them.
SHAPES = {
    "plain": {},
    "sgd": {"optimizer": "SGD"},
    "adagrad": {"optimizer": "AdaGrad"},
    "lazy": {"update": "LazyGlobal"},
    "wide": {"width": 1024, "d": 4},
    "long vectors": {"d": 128},
    "one slot": {"budget": 600, "slots": 1, "keys": 600},
    "many slots": {"slots": 40, "d": 8},
    "several tables": {"tables": 3},
    "batch norm": {"batch_norm": True},
    "mixed": {"mixed": True},
    "no evaluation": {"evaluate": False},
    "localized": {"embedding": "Localized", "sizes": [500] * 8, "keys": 500},
    "two devices pooled": {"budget": 1500, "devices": 2, "exchange": "pooled"},
    "two devices unique": {"budget": 1500, "devices": 2, "exchange": "unique", "keys": 3000},
    "two devices unique fp8": {
        "budget": 1500, "devices": 2, "exchange": "unique", "keys": 3000, "wire": "fp8",
    },
    "two devices pooled bf16": {
        "budget": 1500, "devices": 2, "exchange": "pooled", "wire": "bf16",
    },
    "localized on two": {
        "embedding": "Localized", "sizes": [500] * 8, "keys": 500, "devices": 2,
        "exchange": "pooled",
    },
    "in parts": {"parts": 4},
    "two devices in parts pooled": {
        "budget": 1500, "devices": 2, "exchange": "pooled", "parts": 2,
    },
    "two devices in parts unique": {
        "budget": 1500, "devices": 2, "exchange": "unique", "keys": 3000, "parts": 2,
    },
    "resident": {"resident": STEPS},
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_a_plan_is_what_the_model_holds(shape):
    model = model_of(**SHAPES[shape])
    plan = model.plan().memory
    run(model, evaluate=SHAPES[shape].get("evaluate", True))
    stats = model.table_stats()
    assert [t["rows"] for t in stats] == [t.rows for t in plan.tables]  # full: nothing to guess
    found = held(model)
    assert set(found) == set(plan.by_owner)
    assert plan.bytes == pytest.approx(sum(found.values()), rel=0.01)
    for owner, size in plan.by_owner.items():
        assert size == pytest.approx(found[owner], rel=0.01), (owner, plan.by_part(owner))


def test_rows_that_are_asked_for_are_counted():
    model = model_of(budget=0)  # no bound
    none = model.plan().memory
    assert (none.tables[0].rows, none.tables[0].max_rows) == (0, None)
    row = none.tables[0].row_bytes
    assert row == 8 + 3 * 16 * 4
    many = model.plan({"emb0": 3000}).memory
    run(model)
    assert model.table_stats()[0]["rows"] == 3000
    # A table that grows holds up to an eighth more than its rows need.
    spare = held(model)["emb0"] - many.by_owner["emb0"]
    assert 0 <= spare <= 3000 * row / 8 + 5 * 4096
    assert model.plan({"emb0": 10**9}).memory.bytes > 10**9 * row


def test_a_plan_is_of_every_device_and_needs_none():
    model = model_of(devices=2, exchange="pooled")
    plan = model.plan().memory
    assert set(plan.by_device) == {"cpu:0", "cpu:1"}
    assert sum(plan.by_device.values()) == plan.bytes == sum(plan.by_owner.values())
    text = str(plan)
    for word in ("emb0", "index", "vectors", "optimizer states", "network", "batches", "cpu:1"):
        assert word in text
    assert "at most 6,000" in text


def test_on_cuda_pages_are_larger_and_no_gpu_is_needed():
    model = model_of()
    model._graph.solver = hugectr.CreateSolver(
        batchsize=BATCH, batchsize_eval=BATCH, i64_input_key=True, device="cuda", vvgpu=[[0]]
    )
    plan = model.plan().memory
    assert set(plan.by_device) == {"cuda:0"}
    assert plan.by_part("emb0")["vectors"] % (2 << 20) == 0


@pytest.mark.parametrize(
    ("rows", "message"), [({"emb": 5}, "allowed: one of"), ({"emb0": -1}, "plan: rows")]
)
def test_what_can_not_be_is_refused(rows, message):
    with pytest.raises(hugectr.InvalidArgument, match=message):
        model_of().plan(rows)


def test_a_model_without_an_input_has_no_plan():
    full_model = model_of()
    model = hugectr.Model(full_model.solver, full_model.reader_params, full_model.opt_params)
    with pytest.raises(hugectr.InvalidArgument, match="no Input"):
        model.plan()


def test_planning_changes_nothing():
    plain, planned = model_of(), model_of()
    planned.plan()
    run(plain, 3)
    run(planned, 3)
    planned.plan()
    assert plain.get_current_loss() == planned.get_current_loss()
