# SPDX-License-Identifier: Apache-2.0
"""Tables whose vectors are kept in bfloat16: training, tiers, placements, lives, files, views."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from model.nets import make_model
from model.placed_models import (
    KINDS,
    assert_near,
    make_model as make_placed,
    outcome,
    placed,
    random_tables,
)
from model.test_row_lives import LIVES
from model.test_tiers import (
    BATCH,
    CASES,
    SLOTS,
    assert_same_rows,
    course,
    moved,
    rows_of,
    setup_of,
    with_places,
)
from oracle.reals import BFLOAT16
from oracle.rounding import widened
from oracle.streaming_net import build, stream

import hugectr
from hugectr.checkpoints.reshard import reshard

FEW = 2 * BATCH * SLOTS


def bf16_setup(**changes):
    return setup_of(vector_type="bfloat16", **changes)


def is_bfloat16(values):
    return not (np.ascontiguousarray(values).view(np.uint32) & 0xFFFF).any()


def on_disk(setup, folder):
    row = 8 + 4 * setup.d * 3
    memory = hugectr.Memory(
        device=FEW * (row + 8), host=setup.devices * 4 * FEW * (row + 20), disk=f"{folder}:128MB"
    )
    return dataclasses.replace(setup, more=setup.more | {"memory": memory})


OPTIMIZERS = [
    {"optimizer": "SGD"},
    {"optimizer": "Adam"},
    {"optimizer": "Adam", "update_type": "Global"},
    {"optimizer": "Adam", "update_type": "LazyGlobal"},
    {"optimizer": "AdaGrad"},
    {"optimizer": "RowWiseAdaGrad"},
    {"optimizer": "Ftrl"},
    {"optimizer": "MomentumSGD", "update_type": "Global"},
    {"optimizer": "Nesterov", "update_type": "LazyGlobal"},
    {"optimizer": "RMSProp", "update_type": "Global"},
]


@pytest.mark.parametrize("case", OPTIMIZERS, ids=lambda c: "-".join(c.values()))
@pytest.mark.parametrize("devices", [1, 2])
def test_every_optimizer_trains_near_float32(case, devices):
    found, wanted = (
        make_model(setup_of(devices=devices, vector_type=kind, lr=0.02, **case))
        for kind in ("bfloat16", "float32")
    )
    losses = course(found, 8), course(wanted, 8)
    np.testing.assert_allclose(losses[0], losses[1], atol=0.002)
    for own, other in zip(rows_of(found), rows_of(wanted), strict=True):
        assert is_bfloat16(own["vectors"])
        np.testing.assert_array_equal(own["keys"], other["keys"])
        distance = np.linalg.norm(own["vectors"] - other["vectors"])
        assert 0 < distance < 0.01 * np.linalg.norm(other["vectors"])
        assert all(state.dtype == np.float32 for state in own["states"])
    # Later they part, since what is nearly 0 decides where a step of Adam goes, but not in quality.
    np.testing.assert_allclose(course(found, 32), course(wanted, 32), atol=0.03)


def test_a_run_repeats_and_another_seed_rounds_otherwise():
    one, again = (make_model(bf16_setup(devices=2)) for _ in range(2))
    assert course(one, 30) == course(again, 30)
    assert_same_rows(one, again)
    other = make_model(bf16_setup(devices=2, seed=8))
    assert course(other, 30) != course(make_model(bf16_setup(devices=2)), 30)


@pytest.mark.parametrize("case", CASES)
def test_tiers_are_the_same_to_the_bit(case, tmp_path):
    setup = bf16_setup(**CASES[case])
    plain = make_model(setup)
    losses = course(plain, 40)
    for tiered in (with_places(setup, FEW), on_disk(setup, tmp_path)):
        model = make_model(tiered)
        assert course(model, 40, look=(7, 22)) == losses
        assert_same_rows(model, plain)
        assert moved(model)


@pytest.mark.parametrize("tier", ["", "host"])
@pytest.mark.parametrize("life", LIVES)
def test_rows_that_come_and_go(life, tier):
    memory = hugectr.Memory(device=18_000) if tier else None
    data = stream(np.random.default_rng(3), 24)
    models = [
        build(data, LIVES[life] | {"vector_type": "bfloat16"}, memory=own) for own in (None, memory)
    ]
    for _ in range(24):
        assert all(model.train() for model in models)
    assert_same_rows(*models)
    assert all(is_bfloat16(table["vectors"]) for table in rows_of(models[0]))


@pytest.mark.parametrize("placement", KINDS)
def test_a_placement_is_the_model_of_one_device(placement):
    """After a step a number may lie on the other side of its random threshold, since sums are added
    in another order: a few, by one bfloat16."""
    tables = [
        dataclasses.replace(table, vector_type="bfloat16")
        for table in placed(random_tables(77), placement)
    ]
    wanted = outcome(make_placed(placed(tables, "by_key"), [[0]]), 1)
    later = outcome(make_placed(placed(tables, "by_key"), [[0]]), 40)
    for count in (2, 4):
        model = make_placed(tables, [list(range(count))])
        found = outcome(model, 1)
        for name, values in wanted.items():
            if not name.endswith("vectors"):
                continue
            bits, own = (x.view(np.uint32).astype(np.int64) >> 16 for x in (values, found[name]))
            assert np.abs(bits - own).max(initial=0) <= 1
            assert (bits != own).mean() < 0.01
        assert_copies_are_the_same_values(model, tables, count)
        assert_near(outcome(make_placed(tables, [list(range(count))]), 40), later, 0.01)


def assert_copies_are_the_same_values(model, tables, devices):
    for i, table in enumerate(tables):
        if table.placement != "replicated":
            continue
        handle = model.session.table(i)
        wanted = handle.dump()
        for device in range(devices):
            view = handle.view(device)
            assert view["vectors"].dtype == "bfloat16"
            keys, slots = np.from_dlpack(view["keys"]), view["slot_ids"]
            order = np.lexsort(
                (keys,) if slots is None else (keys, np.from_dlpack(slots).astype(np.int64))
            )
            vectors = hugectr.interop.to_numpy(view["vectors"])[order]
            np.testing.assert_array_equal(vectors, wanted["vectors"])


# --- memory ---------------------------------------------------------------------------------------


def test_vectors_take_half_the_memory():
    plans = [
        make_model(setup_of(d=64, optimizer="SGD", vector_type=kind)).plan({"emb": 2000})
        for kind in ("float32", "bfloat16")
    ]
    parts = [
        {entry.part: entry.bytes for entry in plan.memory.entries if entry.owner == "emb"}
        for plan in plans
    ]
    assert parts[1]["vectors"] <= 0.55 * parts[0]["vectors"]
    assert parts[1]["index"] == parts[0]["index"]
    assert [plan.memory.tables[0].row_bytes for plan in plans] == [8 + 256, 8 + 128]


def test_a_budget_in_bytes_holds_twice_the_rows():
    tables = [
        hugectr.SparseEmbedding(
            hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash,
            workspace_size_per_gpu_in_mb=1,
            embedding_vec_size=16,
            sparse_embedding_name="t",
            bottom_name="keys",
            vector_type=kind,
        )
        for kind in ("float32", "bfloat16")
    ]
    assert tables[1].rows_per_gpu == 2 * tables[0].rows_per_gpu == 2 * 2**20 // 64


def test_tiers_move_half_the_bytes():
    """Of a table whose optimizer has no states."""
    rows = {}
    for kind in ("float32", "bfloat16"):
        # The same places for rows.
        setup = setup_of(optimizer="SGD", vector_type=kind)
        size = {"float32": 4, "bfloat16": 2}[kind] * setup.d + 8
        more = {"memory": hugectr.Memory(device=200 * size)}
        model = make_model(dataclasses.replace(setup, more=more))
        course(model, 30)
        rows[kind] = model.table_stats()[0]
    assert rows["float32"]["misses"] == rows["bfloat16"]["misses"]
    assert rows["float32"]["bytes_fetched"] == 2 * rows["bfloat16"]["bytes_fetched"] > 0
    assert rows["float32"]["bytes_written_back"] == 2 * rows["bfloat16"]["bytes_written_back"] > 0


def test_any_other_type_is_refused():
    with pytest.raises(ValueError, match="'float32' or 'bfloat16'"):
        make_model(setup_of(vector_type="float16"))


# --- what is read ---------------------------------------------------------------------------------


def test_vectors_neighbours_views_and_predictions_are_of_what_is_kept():
    model = make_model(bf16_setup())
    course(model, 20)
    (rows,) = rows_of(model)
    keys, vectors = rows["keys"], rows["vectors"]
    table = model.session.table(0)
    found, there = table.lookup(keys[::2])
    assert there.all()
    np.testing.assert_array_equal(found, vectors[::2])
    near, _, scores = table.nearest(vectors[3], 5, "dot")
    wanted = vectors.astype(np.float64) @ vectors[3].astype(np.float64)
    order = np.lexsort([keys, -wanted])[:5]
    np.testing.assert_array_equal(near, keys[order])
    np.testing.assert_allclose(scores, wanted[order], rtol=1e-12)
    view = table.view(0)["vectors"]
    assert view.dtype == "bfloat16"
    by_key = np.argsort(np.from_dlpack(table.view(0)["keys"]))
    np.testing.assert_array_equal(hugectr.interop.to_numpy(view)[by_key], vectors)


def test_rows_that_are_loaded_are_rounded_to_nearest():
    model = make_model(bf16_setup())
    course(model, 3)
    rng = np.random.default_rng(0)
    keys = np.arange(5000, 5300, dtype=np.int64)
    vectors = rng.standard_normal((300, 8)).astype(np.float32)
    model.session.table(0).load({"keys": keys, "vectors": vectors})
    found, there = model.session.table(0).lookup(keys)
    assert there.all()
    np.testing.assert_array_equal(found, widened(BFLOAT16.store(vectors)))


# --- files ----------------------------------------------------------------------------------------


def vector_files(path):
    manifest = json.loads((path / "manifest.json").read_text())
    for table in manifest["tables"]:
        for shard in table["shards"]:
            name = shard["files"]["vector"]
            yield path / name, manifest["files"][name]


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("devices", [1, 2])
def test_a_checkpoint_holds_16_bits_and_resumes_to_the_bit(tmp_path, background, devices):
    setup = bf16_setup(optimizer="Adam", update_type="LazyGlobal", devices=devices)
    first = make_model(setup)
    course(first, 15)
    path = first.save(tmp_path, background=background)
    before = rows_of(first)[0]["vectors"]
    rest = course(first, 10)
    first.wait_for_save()
    ((file, entry),) = vector_files(path)
    assert entry["dtype"] == "bfloat16"
    assert file.stat().st_size == entry["bytes"] == before.size * 2
    np.testing.assert_array_equal(widened(np.fromfile(file, np.uint16)), before.reshape(-1))
    for way in (setup, with_places(setup, FEW)):
        second = make_model(way)
        second.resume(tmp_path)
        assert course(second, 10) == rest
        assert_same_rows(second, first)


def test_deltas_hold_16_bits_too(tmp_path):
    first = make_model(bf16_setup())
    course(first, 5)
    first.save(tmp_path)
    course(first, 5)
    delta = first.save(tmp_path, delta=True)
    assert [entry["dtype"] for _, entry in vector_files(delta)] == ["bfloat16"]
    second = make_model(bf16_setup())
    second.resume(tmp_path)
    assert_same_rows(second, first)
    whole = reshard(delta, tmp_path / "whole", 3)
    assert {entry["dtype"] for _, entry in vector_files(whole)} == {"bfloat16"}
    third = make_model(bf16_setup())
    third.resume(whole)
    assert_same_rows(third, first)


def test_a_table_takes_rows_of_the_other_type(tmp_path):
    narrow, wide = make_model(bf16_setup()), make_model(setup_of())
    for model, name in ((narrow, "narrow"), (wide, "wide")):
        course(model, 10)
        model.save(tmp_path / name)
    values = {name: rows_of(model)[0] for name, model in (("narrow", narrow), ("wide", wide))}
    for own, other in (("narrow", "wide"), ("wide", "narrow")):
        wanted = values[other]["vectors"]
        if own == "narrow":
            wanted = widened(BFLOAT16.store(wanted))
        for take in ("load_weights", "resume"):
            model = make_model(bf16_setup() if own == "narrow" else setup_of())
            if take == "resume":
                with pytest.raises(ValueError, match="vector_type"):
                    model.resume(tmp_path / other)
                model.resume(tmp_path / other, strict=False)
            else:
                model.load_weights(tmp_path / other)
            (rows,) = rows_of(model)
            np.testing.assert_array_equal(rows["keys"], values[other]["keys"])
            np.testing.assert_array_equal(rows["vectors"], wanted)


def test_files_of_the_original_layout_stay_float32(tmp_path):
    first, second = make_model(bf16_setup()), make_model(bf16_setup())
    course(first, 10)
    first.save_params_to_files(str(tmp_path / "m"), 10)
    (folder,) = tmp_path.glob("m0_sparse_10.model")
    stored = np.fromfile(folder / "emb_vector", np.float32)
    (rows,) = rows_of(first)
    assert stored.size == rows["vectors"].size
    assert is_bfloat16(stored)
    second.load_sparse_weights([str(folder)])
    np.testing.assert_array_equal(rows_of(second)[0]["vectors"], rows["vectors"])


def test_what_serves_is_the_model(tmp_path):
    model = make_model(bf16_setup())
    course(model, 20)
    path = model.save(tmp_path)
    data = setup_of().test
    served = hugectr.load(path)
    np.testing.assert_array_equal(served.predict(data), model.predict(data))


def test_a_graph_file_keeps_the_type(tmp_path):
    model = make_model(bf16_setup())
    model.graph_to_json(str(tmp_path / "graph.json"))
    graph = json.loads((tmp_path / "graph.json").read_text())
    hparams = [
        layer["sparse_embedding_hparam"]
        for layer in graph["layers"]
        if "sparse_embedding_hparam" in layer
    ]
    assert [hparam["vector_type"] for hparam in hparams] == ["bfloat16"]
