# SPDX-License-Identifier: Apache-2.0
"""Where rows lie changes no model: every placement and mixture against one device."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from model.placed_models import (
    BATCH,
    BATCHES,
    KINDS,
    LOCALIZED,
    assert_copies_are_the_same,
    assert_near,
    data_of,
    make_model,
    names_of,
    outcome,
    placed,
    random_tables,
    rows_of,
)

import hugectr
from hugectr import checkpoints

job = pytest.importorskip("processes.job")
JOB = Path(__file__).with_name("placed_job.py")
STEPS = 100
TOLERANCE = {"SGD": 1e-5, "Adam": 1e-4}


def devices(count: int) -> list[list[int]]:
    return [list(range(count))]


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("seed", range(3))
def test_mixtures_are_the_model_of_one_device(seed, optimizer, monkeypatch):
    tables = random_tables(seed + 10 * (optimizer == "Adam"))
    wanted = outcome(make_model(placed(tables, "by_key"), devices(1), optimizer), STEPS)
    for count in (1, 2, 4, 8):
        model = make_model(tables, devices(count), optimizer)
        found = outcome(model, STEPS)
        assert_near(found, wanted, TOLERANCE[optimizer])
        assert_copies_are_the_same(model, tables, count)
    # Tables that travel alone, and what stays on its device apart: to the bit.
    for variable, value in (("HUGECTR_GROUP", "0"), ("HUGECTR_APART_BYTES", "1")):
        with monkeypatch.context() as patch:
            patch.setenv(variable, value)
            other = outcome(make_model(tables, devices(8), optimizer), STEPS)
        for name, values in found.items():
            np.testing.assert_array_equal(other[name], values, err_msg=f"{name}, {variable}")


@pytest.mark.parametrize("placement", KINDS)
def test_a_placement_alone_is_the_model_of_one_device(placement):
    tables = placed(random_tables(77), placement)
    wanted = outcome(make_model(placed(tables, "by_key"), devices(1)), STEPS)
    for count in (2, 3, 8):
        model = make_model(tables, devices(count))
        assert_near(outcome(model, STEPS), wanted, TOLERANCE["SGD"])
        assert {table.placement() for table in model.session.tables()} >= {placement}
        assert_copies_are_the_same(model, tables, count)


@pytest.mark.parametrize("update", ["Local", "Global", "LazyGlobal"])
@pytest.mark.parametrize("optimizer", ["Adam", "AdaGrad", "Nesterov", "Ftrl"])
def test_updates(optimizer, update):
    tables = random_tables(5)
    params = hugectr.CreateOptimizer(
        hugectr.Optimizer_t[optimizer], hugectr.Update_t[update], clip_norm=0.5
    )

    def run(count: int) -> dict[str, np.ndarray]:
        model = make_model(tables, devices(count), params)
        return outcome(model, 30)

    assert_near(run(4), run(1), 1e-4)


@pytest.mark.parametrize("saved", KINDS)
def test_checkpoints_move_between_placements(saved, tmp_path):
    tables = random_tables(3)
    source = make_model(placed(tables, saved), devices(4), "Adam")
    outcome(source, 10)
    path = source.save(tmp_path / "run")
    kept = rows_of(source)
    following = [source.train() and source.get_current_loss() for _ in range(5)]
    manifest = checkpoints.verify(checkpoints.latest(tmp_path / "run"))
    assert saved in {table["placement"] for table in manifest["tables"]}
    for i, other in enumerate(KINDS):
        model = make_model(placed(tables, other), devices((1, 2, 3, 4, 8, 6)[i]), "Adam")
        model.resume(tmp_path / "run")
        for name, values in rows_of(model).items():
            np.testing.assert_array_equal(values, kept[name], err_msg=name)
        found = [model.train() and model.get_current_loss() for _ in range(5)]
        np.testing.assert_allclose(found, following, rtol=1e-4)
    assert path is None or path


def run_job(folder, rows, action, script=JOB, counts=False, **settings):
    """What each process leaves, rows of all together."""
    file = folder / "settings.json"
    file.write_text(
        json.dumps({"folder": str(folder), "vvgpu": rows, "action": action, **settings})
    )
    status, out, err = job.run("launch", len(rows), script, file)
    assert status == 0, out + err
    parts = [dict(np.load(folder / f"{action}-{rank}.npz")) for rank in range(len(rows))]
    found = {name: parts[0][name] for name in ("losses", "weights", "evaluated")}
    if counts:
        found["collectives"] = parts[0]["collectives"]
    tables = {name.rsplit(" ", 1)[0] for name in parts[0] if name.endswith(" keys")}
    for table in sorted(tables):
        names = [name for name in parts[0] if name.startswith(f"{table} ")]
        joined = {name: np.concatenate([part[name] for part in parts]) for name in names}
        slots = joined.get(f"{table} slot_ids")
        keys = joined[f"{table} keys"]
        order = np.lexsort((keys,) if slots is None else (keys, slots.astype(np.int64)))
        found |= {name: values[order] for name, values in joined.items()}
    return found


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_two_processes(optimizer, tmp_path):
    tables = random_tables(21)
    wanted = outcome(make_model(placed(tables, "by_key"), devices(1), optimizer), STEPS)
    rows = [[0, 1], [0, 1]]
    found = run_job(tmp_path, rows, "train", optimizer=optimizer, seed=21, steps=STEPS)
    assert_near(found, wanted, TOLERANCE[optimizer])


def test_two_processes_go_by_one_plan(tmp_path):
    """What one of them has counted and planned."""
    tables = random_tables(23)
    wanted = outcome(make_model(placed(tables, "by_key"), devices(1)), 30)
    rows = [[0, 1], [0]]
    found = run_job(tmp_path, rows, "train", optimizer="SGD", seed=23, steps=30, plan="auto")
    assert_near(found, wanted, TOLERANCE["SGD"])


def test_deltas_of_a_mixture(tmp_path):
    """Rows touched since, wherever they lie, and rows that were erased."""
    tables = random_tables(24)
    model = make_model(tables, devices(3), "Adam")
    outcome(model, 3)
    model.save(tmp_path / "run", delta=True)
    outcome(model, 2)
    model.save(tmp_path / "run", delta=True)
    kept = rows_of(model)
    manifest = checkpoints.verify(checkpoints.latest(tmp_path / "run"))
    assert len(manifest["chain"]) == 1
    for count in (1, 4):
        again = make_model(tables, devices(count), "Adam")
        again.resume(tmp_path / "run")
        for name, values in rows_of(again).items():
            np.testing.assert_array_equal(values, kept[name], err_msg=name)


def test_checkpoints_of_two_processes(tmp_path):
    """Saved by two, gone on with by one and by two others; each row is saved once."""
    run_job(tmp_path, [[0, 1], [0, 1]], "save", optimizer="Adam", seed=22, steps=10)
    tables = random_tables(22)
    alone = make_model(placed(tables, "by_key"), devices(1), "Adam")
    alone.resume(tmp_path / "run")
    kept = rows_of(alone)
    manifest = checkpoints.verify(checkpoints.latest(tmp_path / "run"))
    for i, table in enumerate(manifest["tables"]):
        assert sum(shard["rows"] for shard in table["shards"]) == len(kept[f"table {i} keys"])
    again = run_job(
        tmp_path, [[0], [0, 1]], "resume", optimizer="Adam", seed=22, steps=5, source="run"
    )
    assert_near(again, outcome(alone, 5), 1e-4)
    files = run_job(tmp_path, [[0, 1], [0]], "files", optimizer="Adam", seed=22, steps=0)
    for name, values in kept.items():
        np.testing.assert_array_equal(files[name], values, err_msg=name)


def test_what_can_not_be_placed_is_refused():
    make = hugectr.SparseEmbedding
    with pytest.raises(hugectr.InvalidArgument, match="placement: found 'by_moon'"):
        make(hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash, 1, 4, "sum", "t", "k",
             placement="by_moon")  # fmt: skip
    with pytest.raises(hugectr.InvalidArgument, match="is not of one device"):
        hugectr.Placement("replicated", 1)
    tables = placed(random_tables(1), "by_column")
    with pytest.raises(hugectr.InvalidArgument, match="one number a row over all columns"):
        make_model(tables, devices(2), "RowWiseAdaGrad")


def test_frequent_keys_are_counted():
    """Against a count in NumPy, by the rule of HybridEmbeddingParam."""
    tables = placed(random_tables(41), "by_key")
    model = make_model([replace(tables[0], placement="counted")], devices(4))
    keys = data_of([tables[0]]).sparse
    every = np.concatenate([keys[name][0] for name in names_of(0, tables[0])])
    found, counts = np.unique(every, return_counts=True)
    batches, own = BATCHES, BATCH // 4
    least = BATCH * batches * np.sqrt(2 * 0.01 / (own * (own - 1)))
    wanted = sorted(found[counts >= least].tolist())
    assert 0 < len(wanted) <= BATCH
    assert model._graph.to_spec()["embeddings"][0]["frequent"] == wanted


def test_hybrids_of_slots_are_refused():
    tables = [
        replace(table, placement="hybrid")
        for table in placed(random_tables(9), "by_key")
        if table.kind is LOCALIZED
    ]
    with pytest.raises(hugectr.InvalidArgument, match="tells rows apart by slot"):
        make_model(tables, devices(2))


def test_configs_keep_placements(tmp_path):
    tables = random_tables(2)
    model = make_model(tables, devices(2))
    model.graph_to_json(tmp_path / "graph.json")
    again = hugectr.Model(model.solver, model.reader_params, model.opt_params)
    again.construct_from_json(tmp_path / "graph.json")
    assert [one.placement for one in again.embeddings] == [
        one.placement for one in model.embeddings
    ]


def test_shards_of_a_collection_are_placements():
    """Copies, one GPU alone, or by key; the model is that of one device.

    A table on one device may have all its rows there.
    """
    data = data_of([replace(random_tables(1)[0], slots=1, rows=90, inputs=3, combiner="mean")])
    names, kind = ["keys0_0", "keys0_1", "keys0_2"], hugectr.Layer_t

    def make(count: int, shard: bool) -> hugectr.Model:
        model = hugectr.Model(
            hugectr.CreateSolver(
                seed=3, batchsize=BATCH, batchsize_eval=BATCH, lr=0.02, device="cpu",
                vvgpu=devices(count), i64_input_key=True,
            ),
            hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, source=data, eval_source=data),
            hugectr.CreateOptimizer(hugectr.Optimizer_t.AdaGrad),
        )  # fmt: skip
        inputs = [hugectr.DataReaderSparseParam(name, 2, False, 1) for name in names]
        model.add(hugectr.Input(1, "label", 3, "dense", inputs))
        tables = [hugectr.EmbeddingTableConfig(f"t{i}", 90, 8) for i in range(3)]
        collection = hugectr.EmbeddingCollectionConfig()
        collection.embedding_lookup(tables, names, "vectors", ["mean"] * 3)
        if shard:
            collection.shard(
                [["t0", "t2"], ["t0", "t1", "t2"]], [("dp", ["t0"]), ("mp", ["t1", "t2"])]
            )
        model.add(collection)
        model.add(hugectr.DenseLayer(kind.Concat, ["vectors", "dense"], ["x"]))
        model.add(hugectr.DenseLayer(kind.InnerProduct, ["x"], ["logit"], num_output=1))
        model.add(hugectr.DenseLayer(kind.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
        model.compile()
        return model

    sharded, alone = make(2, True), make(1, False)
    kinds = [table.placement() for table in sharded.session.tables()]
    assert kinds == ["replicated", "one_device", "by_key"]
    assert sharded.session.table(1).view(0)["keys"].shape == (0,)
    assert_near(outcome(sharded, 40), outcome(alone, 40), 1e-5)


def test_tables_on_one_device_each_are_spread():
    tables = [replace(table, d=16) for table in placed(random_tables(6), "one_device")]
    assert len(tables) >= 4
    specs = make_model(tables, devices(4))._graph.to_spec()["embeddings"]
    assert {spec["placement_device"] for spec in specs} == {0, 1, 2, 3}


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_vectors_of_16_bits(kind):
    """Sums by row travel in float32 whatever vectors travel in; copies stay the same."""
    tables = random_tables(51)
    precision = {"use_mixed_precision": True, "mixed_precision_type": kind, "scaler": 128}
    wanted = outcome(make_model(placed(tables, "by_key"), devices(1), **precision), 30)
    for count in (2, 4):
        model = make_model(tables, devices(count), **precision)
        found = outcome(model, 30)
        np.testing.assert_allclose(found["losses"], wanted["losses"], rtol=1e-2)
        assert_near(found, wanted, 1e-2)
        assert_copies_are_the_same(model, tables, count)


def test_rows_that_are_erased_begin_anew_everywhere():
    tables = random_tables(61)

    def run(count: int, which: list) -> dict[str, np.ndarray]:
        model = make_model(which, devices(count), "Adam")
        outcome(model, 10)
        for table in model.session.tables():
            bag = table.dump()
            keys = bag["keys"][::3]
            slots = None if bag["slot_ids"] is None else bag["slot_ids"][::3]
            assert table.erase(keys, slots) == len(keys)
            assert len(table.dump()["keys"]) == len(bag["keys"]) - len(keys)
            assert table.stats()["rows"] == len(bag["keys"]) - len(keys)
        return outcome(model, 30)

    wanted = run(1, placed(tables, "by_key"))
    for count in (2, 4):
        assert_near(run(count, tables), wanted, TOLERANCE["Adam"])
