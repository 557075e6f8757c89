# SPDX-License-Identifier: Apache-2.0
"""Plans of models whose tables have a Memory: of what the core takes, and nothing it refuses."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

import hugectr
from hugectr.data import from_arrays
from hugectr.plan.picture import plan_page
from hugectr.plan.plan_file import plan_of_json

BATCH, ROWS, D = 256, 4000, 16


def make_model(memory=None, plan=None, shared=None, **table):
    rng = np.random.default_rng(5)
    keys = np.minimum((ROWS * rng.random((2048, 1)) ** 4).astype(np.int64), ROWS - 1)
    labels = (rng.random(2048) < 0.5).astype(np.float32)
    data = from_arrays(labels, rng.random((2048, 3), np.float32), {"keys": keys})
    solver = hugectr.CreateSolver(
        batchsize=BATCH, batchsize_eval=BATCH, lr=0.01, seed=1, device="cpu", vvgpu=[[0, 1]],
        i64_input_key=True, plan=plan, memory=shared,
    )  # fmt: skip
    reader = hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, data, eval_source=data)
    optimizer = hugectr.CreateOptimizer(hugectr.Optimizer_t.AdaGrad, hugectr.Update_t.Local)
    model = hugectr.Model(solver, reader, optimizer)
    inputs = [hugectr.DataReaderSparseParam("keys", 1, True, 1)]
    model.add(hugectr.Input(1, "label", 3, "dense", inputs))
    kind = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
    model.add(hugectr.SparseEmbedding(kind, 0, D, "sum", "items", "keys", memory=memory, **table))
    layers = hugectr.Layer_t
    model.add(hugectr.DenseLayer(layers.Reshape, ["items"], ["flat"], leading_dim=D))
    model.add(hugectr.DenseLayer(layers.Concat, ["flat", "dense"], ["x"]))
    model.add(hugectr.DenseLayer(layers.InnerProduct, ["x"], ["logit"], num_output=1))
    model.add(hugectr.DenseLayer(layers.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    return model


@pytest.mark.parametrize("where", ["table", "solver"])
def test_budgets_are_those_of_the_core(where):
    memory = hugectr.Memory(device="80KB")
    model = make_model(memory) if where == "table" else make_model(shared=memory)
    rows = 100_000
    plan = model.plan({"items": rows}, machine="cpu")
    assert plan.placement is not None
    assert plan.placement.tables[0].kind in ("by_key", "by_slot")  # as the model's own placement
    counted = plan.memory.by_part("items")
    assert sum(plan.placement.host) == pytest.approx(counted["rows in host memory"], rel=0.05)
    parts = ("index", "vectors", "optimizer states", "places of rows", "staging of rows")
    found = sum(counted[part] for part in parts)
    assert sum(plan.placement.bytes) == pytest.approx(found, rel=0.3)
    all_there = make_model().plan({"items": rows}, machine="cpu").placement
    assert all_there is not None
    assert sum(plan.placement.bytes) < 0.5 * sum(all_there.bytes)


@pytest.mark.parametrize("disk", [False, True])
def test_what_is_proposed_trains(disk, tmp_path):
    """All rows of two batches have places by key, and not on every device."""
    below = {"host": "2MB", "disk": f"{tmp_path}:256MB"} if disk else {}
    memory = hugectr.Memory(device="45KB", **below)
    model = make_model(memory, "auto")
    predicted = model.plan(machine="cpu").placement
    assert predicted is not None
    assert predicted.lacking == ()
    model.compile()
    assert all(model.train() for _ in range(16))
    stats = model.table_stats()[0]
    assert stats["misses"] > 0
    losses = model.get_current_loss()
    other = make_model(None, predicted)
    other.compile()
    assert all(other.train() for _ in range(16))
    assert other.get_current_loss() == losses


def test_a_budget_that_the_core_refuses_is_said(capfd):
    plan = make_model(hugectr.Memory(device="4KB")).plan(machine="cpu").placement
    assert plan is not None
    assert "'items' lacks" in plan.lacking[0]
    assert "no room: table 'items' lacks" in str(plan)
    assert "'items' lacks" in capfd.readouterr().err
    assert plan_of_json(plan.to_json(), "plan") == plan
    model = make_model(hugectr.Memory(device="4KB"))
    model.compile()
    with pytest.raises(hugectr.OutOfMemory, match="any two batches"):
        model.train()


def test_hybrids_over_a_disk_are_refused_by_name(tmp_path):
    memory = hugectr.Memory(device="80KB", host="2MB", disk=f"{tmp_path}:256MB")
    placement = hugectr.Placement("hybrid", frequent=[0, 1, 2])
    with pytest.raises(hugectr.InvalidArgument, match=r"'items'.*hybrid.*place it by key"):
        make_model(memory, placement=placement).compile()


def test_the_page_shows_tiers(tmp_path):
    memory = hugectr.Memory(device="80KB", host="500KB", disk=f"{tmp_path}:256MB")
    plan = make_model(memory, max_vocabulary_size_per_gpu=100_000).plan(machine="cpu").placement
    assert plan is not None
    page = plan_page(plan)
    tree = ElementTree.fromstring(
        page.replace("<!doctype html>", "").replace("<meta charset='utf-8'>", "")
    )
    labels = [text.text for text in tree.iter("text")]
    assert labels == [f"{bar}" for r in (0, 1) for bar in (f"device {r}", "its host", "its disk")]
    assert len(list(tree.iter("rect"))) == 6
    heads = [head.text for head in tree.iter("th")]
    assert {"bytes", "bytes in host memory", "bytes on disk"} <= set(heads)
    assert "bytes on disk" in plan._repr_html_()
    plain = make_model().plan(machine="cpu").placement
    assert plain is not None
    assert "its host" not in plan_page(plain)


@pytest.mark.parametrize("machine", ["h200", "cpu"])
@pytest.mark.parametrize(
    "life",
    [{"max_rows": 50}, {"max_rows": 50, "evict": "lru", "evict_every": 2}, {"admit_after": 3}],
    ids=["max_rows", "evict", "admission"],
)
def test_rows_that_come_and_go_are_placed_where_they_may_be(machine, life):
    """One key in 10: replicated or by column by its cost alone."""
    proposed = make_model(plan="auto", **life).plan(machine=machine).placement
    assert proposed is not None
    assert proposed.tables[0].kind in ("by_key", "by_slot", "one_device")
    if "max_rows" in life:
        assert proposed.tables[0].rows == 50
    make_model(plan=proposed, **life).compile()
