# SPDX-License-Identifier: Apache-2.0
"""Tables with places on the device for some of their rows: the same model, to the bit."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from model.nets import Setup, make_model

import hugectr
from hugectr.data import MemoryDataset

SLOTS, BATCH, KEYS = 2, 16, 2000


def samples(count, seed, keys=KEYS, slots=SLOTS):
    """Few keys are frequent, and many come once."""
    rng = np.random.default_rng(seed)
    of_slot = np.minimum((keys * rng.random((count, slots)) ** 3).astype(np.int64), keys - 1)
    return MemoryDataset(
        (rng.random((count, 1)) < 0.5).astype(np.float32),
        rng.random((count, 3), np.float32),
        {"keys": (of_slot.reshape(-1), np.arange(count * slots + 1))},
    )


def setup_of(steps=40, **changes):
    base = {"optimizer": "AdaGrad", "net": "tower", "d": 8, "devices": 1}
    return Setup(
        train=samples(BATCH * steps, 1), test=samples(BATCH * 4, 2), slots=SLOTS, dense_dim=3,
        batch=BATCH, i64=True, eval_batches=2, **(base | changes),
    )  # fmt: skip


def bytes_of_places(setup, beside):
    """Of one place of every table: vector, at most two states and a step; what a place needs."""
    widths = [setup.d, 1] if setup.net == "deepfm" else [setup.d]
    return sum(8 + 4 * width * 3 + beside for width in widths)


def with_places(setup, places):
    """The same with so many places for rows of each table on each device."""
    memory = hugectr.Memory(device=places * bytes_of_places(setup, 8))
    return dataclasses.replace(setup, more=setup.more | {"memory": memory})


def rows_of(model):
    """All tables with their optimizer states."""
    return [table.dump(True) for table in model._graph.session.tables()]


def assert_same_rows(one, other):
    for a, b in zip(rows_of(one), rows_of(other), strict=True):
        assert len(a["keys"]) > 0
        for name in a:
            found, wanted = a[name], b[name]
            if name == "states":
                assert all(np.array_equal(x, y) for x, y in zip(found, wanted, strict=True))
            else:
                np.testing.assert_array_equal(found, wanted)


def course(model, steps, look=()):
    """Losses; at the steps of `look` somebody looks at the model meanwhile."""
    found = []
    for step in range(steps):
        assert model.train()
        found.append(model.get_current_loss())
        if step in look:
            model.eval()
            rows_of(model)
    return found


def moved(model):
    stats = model.table_stats()[0]
    return stats["bytes_fetched"] > 0 and stats["bytes_written_back"] > 0


CASES = {
    "sgd": {"optimizer": "SGD"},
    "adam": {"optimizer": "Adam"},
    "adam lazy": {"optimizer": "Adam", "update_type": "LazyGlobal"},
    "ftrl": {"optimizer": "Ftrl"},
    "momentum": {"optimizer": "MomentumSGD"},
    "two tables": {"net": "deepfm"},
    "localized": {"embedding": "LocalizedSlotSparseEmbeddingHash"},
    "two devices, pooled": {"devices": 2, "exchange": "pooled"},
    "two devices, rows": {"devices": 2, "exchange": "unique", "optimizer": "Adam"},
    "four devices": {"devices": 4, "embedding": "LocalizedSlotSparseEmbeddingHash"},
    "mixed": {"more": {"use_mixed_precision": True, "scaler": 128.0}},
    "dynamic scale": {
        "more": {"use_mixed_precision": True, "dynamic_loss_scaling": True, "scaler": 1.0}
    },
}


@pytest.mark.parametrize("mover", ["device", "host"])
@pytest.mark.parametrize("case", CASES)
def test_the_model_is_the_same_to_the_bit(case, mover, monkeypatch):
    monkeypatch.setenv("HUGECTR_MOVE_ROWS", mover)
    setup = setup_of(**CASES[case])
    plain = make_model(setup)
    losses = course(plain, 40)
    rows = max(len(table["keys"]) for table in rows_of(plain))
    for places in (rows // 5, 2 * BATCH * SLOTS):  # 20 %, and as few as there may be
        model = make_model(with_places(setup, places))
        assert course(model, 40, look=(7, 22)) == losses
        assert_same_rows(model, plain)
        assert moved(model)
        assert model.get_eval_metrics() is not None


def test_five_hundred_steps_that_grow():
    setup = setup_of(500, optimizer="Adam")
    plain, few = make_model(setup), make_model(with_places(setup, 2 * BATCH * SLOTS))
    assert course(plain, 500) == course(few, 500, look=range(0, 500, 100))
    assert_same_rows(few, plain)
    stats = few.table_stats()[0]
    assert stats["rows"] > 20 * 2 * BATCH * SLOTS  # places for less than 5 %
    assert stats["hits"] > 0
    assert stats["misses"] > stats["rows"]


@pytest.mark.parametrize("seed", range(6))
def test_random_configurations(seed):
    rng = np.random.default_rng(1000 + seed)

    def one_of(*values):
        return values[rng.integers(len(values))]

    setup = setup_of(
        net=one_of("tower", "deepfm", "dcn", "dlrm"),
        d=int(one_of(1, 3, 8, 17)),
        devices=int(one_of(1, 2, 4)),
        optimizer=one_of("SGD", "Adam", "AdaGrad", "RMSProp", "Nesterov"),
        exchange=one_of("auto", "pooled", "unique"),
        embedding=one_of("Distributed", "Localized") + "SlotSparseEmbeddingHash",
        combiner=one_of("sum", "mean"),
    )
    if setup.optimizer == "Adam":
        setup.update_type = one_of("Local", "LazyGlobal")
    plain = make_model(setup)
    few = make_model(with_places(setup, int(rng.integers(2 * BATCH * SLOTS, 400))))
    looks = set(rng.integers(0, 40, 3).tolist())
    assert course(few, 40, look=looks) == course(plain, 40)
    assert_same_rows(few, plain)


@pytest.mark.parametrize("background", [False, True])
def test_checkpoints_go_either_way(tmp_path, background):
    setup = setup_of(optimizer="Adam", update_type="LazyGlobal")
    tiered = with_places(setup, 2 * BATCH * SLOTS)
    first = make_model(tiered)
    course(first, 15)
    first.save(tmp_path, background=background)
    rest = course(first, 10)
    first.wait_for_save()
    for way in (tiered, setup, with_places(setup, 150)):
        model = make_model(way)
        model.resume(tmp_path)
        assert course(model, 10) == rest
        assert_same_rows(model, first)


def test_deltas_of_a_tiered_table(tmp_path):
    setup = setup_of()
    tiered = make_model(with_places(setup, 2 * BATCH * SLOTS))
    course(tiered, 5)
    tiered.save(tmp_path)
    course(tiered, 5)
    tiered.save(tmp_path, delta=True)
    plain = make_model(setup)
    plain.resume(tmp_path)
    assert_same_rows(plain, tiered)


def test_predictions_of_a_live_model():
    setup = setup_of()
    plain, few = make_model(setup), make_model(with_places(setup, 2 * BATCH * SLOTS))
    data = samples(100, 9)
    for _ in range(4):
        assert course(plain, 5) == course(few, 5)
        np.testing.assert_array_equal(few.predict(data), plain.predict(data))
    assert_same_rows(few, plain)


def test_vectors_and_their_neighbours():
    setup = setup_of()
    plain, few = make_model(setup), make_model(with_places(setup, 2 * BATCH * SLOTS))
    for model in (plain, few):
        course(model, 20)
    keys = np.arange(0, KEYS, 7)
    for a, b in zip(few.embedding("emb", keys), plain.embedding("emb", keys), strict=True):
        np.testing.assert_array_equal(a, b)


def test_places_for_all_rows_need_no_tiers():
    setup = setup_of()
    model = make_model(with_places(setup, 10**6))
    course(model, 3)
    assert model.table_stats()[0]["host_bytes"] == 0


def test_rows_in_host_memory_alone():
    setup = setup_of()
    none = dataclasses.replace(setup, more={"memory": hugectr.Memory(device=0, host="1GB")})
    plain, model = make_model(setup), make_model(none)
    assert course(model, 10) == course(plain, 10)
    assert_same_rows(model, plain)
    stats = model.table_stats()[0]
    # What is left on the device is the index.
    assert stats["host_bytes"] > 0
    assert stats["bytes"] < plain.table_stats()[0]["bytes"] - 10 * stats["rows"]


def test_too_few_places_are_said_before_the_batch_trains():
    setup = setup_of()
    model = make_model(with_places(setup, 40))
    with pytest.raises(hugectr.OutOfMemory, match=r"embedding 'emb'.*needs \d+ rows.*at least"):
        course(model, 40)
    before = rows_of(model)[0]["vectors"]
    with pytest.raises(hugectr.OutOfMemory):  # the same batch
        model.train()
    np.testing.assert_array_equal(rows_of(model)[0]["vectors"], before)


def test_an_exception_between_steps_leaves_a_model_that_goes_on():
    class Raises(hugectr.callbacks.Callback):
        def on_step(self, step, logs):
            if step == 3:
                raise RuntimeError("in the middle")

    setup = setup_of()
    plain, few = make_model(setup), make_model(with_places(setup, 2 * BATCH * SLOTS))
    for model in (plain, few):
        with pytest.raises(RuntimeError, match="in the middle"):
            model.fit(max_iter=8, display=0, eval_interval=0, snapshot=0, callbacks=[Raises()])
    assert course(few, 5) == course(plain, 5)
    assert_same_rows(few, plain)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"device": "8 potatoes"}, "Memory: device"),
        ({"device": "120%"}, "Memory: device"),
        ({"device": "٣GB"}, "Memory: device"),
        ({"device": -1}, "Memory: device"),
        ({"host": "1GB"}, "a budget of each device"),
    ],
)
def test_memory_that_can_not_be(given, message):
    with pytest.raises(hugectr.InvalidArgument, match=message):
        hugectr.Memory(**given)


@pytest.mark.parametrize(
    ("size", "value"), [("8GB", 8 * 10**9), ("2GiB", 2 << 30), ("1.5KB", 1500), (77, 77), ("0%", 0)]
)
def test_sizes(size, value):
    assert hugectr.Memory(device=size).to_spec("cpu", [[0]])["memory_device"] == value


def test_percentages_are_of_what_there_is():
    whole = hugectr._core.device_memory("cpu", 0)
    spec = hugectr.Memory(device="50%", host="10%").to_spec("cpu", [[0, 1]])
    assert spec["memory_device"] == whole // 2 // 2
    assert spec["memory_host"] == int(whole / 10)


def test_every_row_in_every_step_is_refused_with_the_way_out():
    setup = setup_of(optimizer="Adam", update_type="Global")
    with pytest.raises(
        hugectr.InvalidArgument, match=r"use Update_t\.LazyGlobal or Update_t\.Local"
    ):
        make_model(with_places(setup, 200))
    setup = setup_of(optimizer="Nesterov", update_type="Global")
    with pytest.raises(hugectr.InvalidArgument, match=r"use Update_t\.Local, or leave memory out"):
        make_model(with_places(setup, 200))


def test_a_view_is_refused_with_the_way_out():
    model = make_model(with_places(setup_of(), 2 * BATCH * SLOTS))
    course(model, 2)
    with pytest.raises(hugectr.InvalidArgument, match="take copies"):
        model.table("emb")


def test_the_tiers_stand_in_the_plan_of_the_model():
    setup = setup_of()
    model = make_model(with_places(setup, 2 * BATCH * SLOTS))
    memory = model.plan({"emb": 5000}).memory
    parts = memory.by_part("emb")
    assert parts["rows in host memory"] >= 5000 * 8 * 2 * 4
    assert parts["vectors"] < 5000 * 8 * 4 / 20
    for part in ("places of rows", "staging of rows", "index"):
        assert parts[part] > 0
    assert set(memory.by_device) == {"cpu:0", "host"}


def test_the_plan_is_what_the_model_holds():
    setup = setup_of(60, optimizer="Adam")
    model = make_model(with_places(setup, 300))
    course(model, 60, look=(30,))
    rows = model.table_stats()[0]["rows"]
    planned = model.plan({"emb": rows}).memory.by_owner["emb"]
    held = sum(
        size
        for owner, _, size in model.memory_report(by_tensor=False)
        if owner.startswith("emb on")
    )
    # Growing tables hold up to an eighth more than their rows need, and pages are whole.
    assert planned <= held + 8 * 4096
    assert held <= planned * 9 / 8 + 16 * 4096


def test_memory_stands_in_graph_files(tmp_path):
    setup = setup_of()
    model = make_model(setup)
    table = model._graph.embeddings[0]
    table.memory = hugectr.Memory(device="8MB", host="10%")
    file = tmp_path / "graph.json"
    model.graph_to_json(str(file))
    again = hugectr.Model(model.solver, model.reader_params, model.opt_params)
    again.construct_from_json(str(file), True)
    assert again._graph.embeddings[0].memory == table.memory
