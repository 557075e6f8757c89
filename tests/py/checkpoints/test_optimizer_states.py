# SPDX-License-Identifier: Apache-2.0
"""States of any width and start go wherever a table's rows go."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from model.nets import Setup, evaluate, losses, make_model
from oracle.optimizers import ROW_WISE, STATES, optimizer_step

import hugectr
from hugectr import checkpoints
from hugectr.checkpoints import original_load, original_save
from hugectr.checkpoints.original_convert import from_original
from hugectr.checkpoints.original_files import TableFiles
from hugectr.data.planted import make_planted
from hugectr.processes.solo import SoloGroup

SLOTS, DENSE, D, STEPS = 5, 3, 8, 30
TYPES = ("DistributedSlotSparseEmbeddingHash", "LocalizedSlotSparseEmbeddingHash")
NEW = ("Ftrl", "RowWiseAdaGrad")
LR = {"Ftrl": 0.05, "RowWiseAdaGrad": 0.05}
DATA = make_planted(768, [20, 100, 7, 50, 60], hotness=(1, 2), dense_dim=DENSE, seed=5)
MEMORY = DATA.to_memory("keys")


def _setup(optimizer: str, devices: int = 1, embedding: str = TYPES[0], d: int = D) -> Setup:
    return Setup(
        "tower",
        MEMORY,
        MEMORY,
        SLOTS,
        DENSE,
        d=d,
        nnz=2,
        batch=96,
        devices=devices,
        optimizer=optimizer,
        lr=LR.get(optimizer, 0.005),
        embedding=embedding,
    )


def _rows(model: hugectr.Model) -> dict[str, npt.NDArray[np.generic]]:
    bag = model.session.table(0).dump(True)
    return {"keys": bag["keys"], "vectors": bag["vectors"]} | {
        f"state{i}": state for i, state in enumerate(bag["states"])
    }


def _assert_same(a: dict[str, npt.NDArray[np.generic]], b: dict[str, npt.NDArray[np.generic]]):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


@pytest.mark.parametrize("optimizer", NEW)
@pytest.mark.parametrize("embedding", TYPES)
def test_the_model_learns_and_is_the_same_on_any_devices(optimizer: str, embedding: str) -> None:
    one = make_model(_setup(optimizer, 1, embedding))
    curve = losses(one, 100)
    assert curve[-20:].mean() < curve[:20].mean() - 0.02, "the model does not learn"
    assert evaluate(one, 8) > 0.7
    for devices in (2, 4):
        many = make_model(_setup(optimizer, devices, embedding))
        np.testing.assert_allclose(losses(many, 100), curve, rtol=1e-4)
        for name, values in _rows(one).items():
            found = _rows(many)[name]
            distance = np.linalg.norm(found - values) / np.linalg.norm(values)
            assert distance <= 1e-4, f"{devices} devices: {name} {distance:.1e}"


@pytest.mark.parametrize("optimizer", NEW)
@pytest.mark.parametrize("exchange", ["pooled", "unique"])
def test_both_exchanges_agree(optimizer: str, exchange: str) -> None:
    one = losses(make_model(_setup(optimizer)), STEPS)
    many = make_model(replace(_setup(optimizer, 3), exchange=exchange))
    np.testing.assert_allclose(losses(many, STEPS), one, rtol=1e-4)


@pytest.mark.parametrize("devices", [1, 3])
@pytest.mark.parametrize("optimizer", NEW)
def test_resume_is_exact(optimizer: str, devices: int, tmp_path: Path) -> None:
    whole = make_model(_setup(optimizer, devices))
    wanted = losses(whole, 40)
    first = make_model(_setup(optimizer, devices))
    losses(first, 15)
    path = first.save(tmp_path)
    second = make_model(_setup(optimizer, devices))
    assert second.resume(tmp_path) == 15
    np.testing.assert_array_equal(losses(second, 25), wanted[15:])
    _assert_same(_rows(second), _rows(whole))
    np.testing.assert_array_equal(
        second.session.network.dense_optimizer_states(),
        whole.session.network.dense_optimizer_states(),
    )
    assert checkpoints.verify(path)["step"] == 15


@pytest.mark.parametrize("optimizer", NEW)
def test_resume_on_other_devices_and_by_deltas(optimizer: str, tmp_path: Path) -> None:
    first = make_model(_setup(optimizer, 2))
    losses(first, 5)
    first.save(tmp_path, delta=True)
    losses(first, 5)
    first.save(tmp_path, delta=True)
    second = make_model(_setup(optimizer, 3))
    assert second.resume(tmp_path) == 10
    _assert_same(_rows(second), _rows(first))


@pytest.mark.parametrize("d", [1, D])
@pytest.mark.parametrize("optimizer", list(STATES))
def test_original_layout_round_trip(optimizer: str, d: int, tmp_path: Path) -> None:
    model = make_model(_setup(optimizer, 2, d=d))
    losses(model, 10)
    model.save_params_to_files(str(tmp_path / "m"), 10)
    rows = _rows(model)
    n, width = len(rows["keys"]), 1 if optimizer in ROW_WISE else d
    # One state after the other, rows in the order of the file `key`.
    raw = np.fromfile(tmp_path / "m0_opt_sparse_10.model", np.float32)
    assert raw.size == STATES[optimizer] * n * width
    for i, part in enumerate(raw.reshape(STATES[optimizer], n, width)):
        np.testing.assert_array_equal(part, rows[f"state{i}"])

    for devices in (1, 3):
        fresh = make_model(replace(_setup(optimizer, devices, d=d), seed=99))
        fresh.load_dense_weights(str(tmp_path / "m_dense_10.model"))
        fresh.load_dense_optimizer_states(str(tmp_path / "m_opt_dense_10.model"))
        fresh.load_sparse_weights([str(tmp_path / "m0_sparse_10.model")])
        fresh.load_sparse_optimizer_states([str(tmp_path / "m0_opt_sparse_10.model")])
        _assert_same(_rows(fresh), rows)
        np.testing.assert_array_equal(
            fresh.session.network.dense_optimizer_states(),
            model.session.network.dense_optimizer_states(),
        )

    converted = from_original(tmp_path / "m_dense_10.model", tmp_path / "native", ["emb"])
    assert checkpoints.verify(converted)["step"] == 10
    resumed = make_model(_setup(optimizer, 3, d=d))
    assert resumed.resume(tmp_path / "native") == 10
    _assert_same(_rows(resumed), rows)


def test_states_may_come_before_their_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in v3, where states and rows are arrays of their own."""
    model = make_model(_setup("Adam", 2))
    losses(model, 10)
    model.save_params_to_files(str(tmp_path / "m"), 10)
    states, table = (str(tmp_path / f"m0_{part}_10.model") for part in ("opt_sparse", "sparse"))
    fresh = make_model(replace(_setup("Adam", 3), seed=99))
    with pytest.raises(hugectr.DataError, match="are expected in it"):
        fresh.load_sparse_optimizer_states([str(tmp_path / "gone")])
    (tmp_path / "short").write_bytes(Path(states).read_bytes()[:-4])
    with pytest.raises(hugectr.DataError, match="written by another model"):
        fresh.load_sparse_optimizer_states([str(tmp_path / "short")])
    fresh.load_sparse_optimizer_states({"emb": states})
    assert "waits for the rows of emb" in capsys.readouterr().out
    fresh.load_sparse_weights([table])
    _assert_same(_rows(fresh), _rows(model))
    losses(fresh, 3)
    fresh.load_sparse_weights([table])  # once, and not again with every loading
    assert not any(
        state.any()
        for name, state in _rows(fresh).items()
        if name != "keys" and name.startswith("state")
    )


def test_states_that_wait_for_other_rows(tmp_path: Path) -> None:
    model = make_model(_setup("Adam", 2))
    for steps in (1, 10):
        losses(model, steps)
        model.save_params_to_files(str(tmp_path / "m"), steps)
    states = str(tmp_path / "m0_opt_sparse_1.model")
    tables = {steps: tmp_path / f"m0_sparse_{steps}.model" for steps in (1, 10)}
    first, all_rows = ((table / "key").stat().st_size // 8 for table in tables.values())
    assert first < all_rows
    fresh = make_model(replace(_setup("Adam", 3), seed=99))
    fresh.load_sparse_optimizer_states([states])
    size = (tmp_path / "m0_opt_sparse_1.model").stat().st_size
    refused = f"has {size} bytes, .* of the {all_rows} rows in .*load_sparse_optimizer_states with"
    with pytest.raises(hugectr.DataError, match=refused):
        fresh.load_sparse_weights([str(tables[10])])
    assert not _rows(fresh)["keys"].size
    Path(states).rename(tmp_path / "away")
    with pytest.raises(hugectr.DataError, match=r"m0_opt_sparse_1\.model is not there"):
        fresh.load_sparse_weights([str(tables[1])])
    (tmp_path / "away").rename(states)
    fresh.load_sparse_weights([str(tables[1])])  # they wait still
    assert any(values.any() for name, values in _rows(fresh).items() if name.startswith("state"))


@pytest.mark.parametrize("optimizer", NEW)
def test_the_files_of_a_job_are_those_of_one_process(
    optimizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(original_save, "CHUNK", 900)  # several rounds
    monkeypatch.setattr(original_load, "CHUNK", 900)
    model = make_model(_setup(optimizer, 2, TYPES[1]))
    losses(model, 10)
    model.save_params_to_files(str(tmp_path / "one"), 10)
    original_save.save_params(model._state, str(tmp_path / "job"), 10, SoloGroup())
    for name in ("0_opt_sparse_10.model", "0_sparse_10.model/emb_vector", "_opt_dense_10.model"):
        assert (tmp_path / f"job{name}").read_bytes() == (tmp_path / f"one{name}").read_bytes()
    fresh = make_model(replace(_setup(optimizer, 3, TYPES[1]), seed=99))
    fresh.load_sparse_weights([str(tmp_path / "job0_sparse_10.model")])
    states = str(tmp_path / "job0_opt_sparse_10.model")
    original_load.load_states(fresh.session.table(0), states, SoloGroup())
    _assert_same(_rows(fresh), _rows(model))


def test_files_of_states_of_different_widths(tmp_path: Path) -> None:
    """One state after the other, whatever each is wide; rows come in pieces and in any order."""
    rng = np.random.default_rng()
    values = {
        "key": np.arange(7),
        "vector": rng.random((7, 4), np.float32),
        "state0": rng.random((7, 4), np.float32),
        "state1": rng.random((7, 1), np.float32),
        "state2": rng.random((7, 4), np.float32),
    }
    parts = {part: (str(v.dtype), v.shape[1:]) for part, v in values.items()}
    files = TableFiles(parts, str(tmp_path / "table"), str(tmp_path / "states"))
    files.create()
    files.open()
    for begin, end in ((5, 7), (0, 2), (2, 5)):
        files.write({part: v[begin:end] for part, v in values.items()}, begin, 7)
    files.close()
    wanted = b"".join(values[f"state{i}"].tobytes() for i in range(3))
    assert (tmp_path / "states").read_bytes() == wanted


def test_states_of_another_width_are_refused(tmp_path: Path) -> None:
    row_wise, plain = (make_model(_setup(name)) for name in ("RowWiseAdaGrad", "AdaGrad"))
    for name, model in (("r", row_wise), ("p", plain)):
        losses(model, 3)
        model.save_params_to_files(str(tmp_path / name), 3)
        model.save(tmp_path / f"{name}_native")
    for model, other in ((row_wise, "p"), (plain, "r")):
        before = _rows(model)
        with pytest.raises(hugectr.DataError, match="optimizer states of"):
            model.load_sparse_optimizer_states([str(tmp_path / f"{other}0_opt_sparse_3.model")])
        with pytest.raises(hugectr.InvalidArgument, match=r"state0 \(one number a row\)"):
            model.resume(tmp_path / f"{other}_native")
        bag = model.session.table(0).dump(True)
        width = bag["states"][0].shape[1]
        bag["states"] = [np.ones((len(bag["keys"]), D if width == 1 else 1), np.float32)]
        with pytest.raises(hugectr.InvalidArgument, match="numbers a row"):
            model.session.table(0).load(bag)
        _assert_same(_rows(model), before)


@pytest.mark.parametrize("optimizer", ["AdaGrad", "RowWiseAdaGrad"])
def test_rows_and_dense_weights_begin_with_the_start_value(optimizer: str) -> None:
    """Those of loaded rows without states too."""
    setup = _setup(optimizer)
    kind = hugectr.Optimizer_t[optimizer]
    settings = hugectr.CreateOptimizer(kind, initial_accu_value=0.75)
    given = make_model(setup)
    model = hugectr.Model(given.solver, given.reader_params, settings)
    model.add(
        hugectr.Input(
            1, "label", DENSE, "dense", [hugectr.DataReaderSparseParam("keys", 2, False, SLOTS)]
        )
    )
    model.add(hugectr.SparseEmbedding(hugectr.Embedding_t[TYPES[0]], 1, D, "sum", "emb", "keys"))
    layer, t = hugectr.DenseLayer, hugectr.Layer_t
    model.add(layer(t.Reshape, ["emb"], ["flat"], leading_dim=SLOTS * D))
    model.add(layer(t.InnerProduct, ["flat"], ["logit"], num_output=1))
    model.add(layer(t.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    assert (model.session.network.dense_optimizer_states() == np.float32(0.75)).all()
    model.set_table_rows("emb", np.array([5, 10**6]), np.ones((2, D), np.float32))
    (state,) = model.session.table(0).dump(True)["states"]
    assert state.shape == (2, 1 if optimizer in ROW_WISE else D)
    assert (state == np.float32(0.75)).all()


def test_one_number_a_row_is_seen_in_views_and_in_memory() -> None:
    plain, row_wise = (make_model(_setup(name)) for name in ("AdaGrad", "RowWiseAdaGrad"))
    for model in (plain, row_wise):
        losses(model, 3)
    rows = row_wise.table("emb")
    (state,) = rows.states
    assert tuple(state.shape) == (len(rows.keys), 1)
    dumped = row_wise.session.table(0).dump(True)
    np.testing.assert_array_equal(
        np.sort(np.from_dlpack(state).ravel()), np.sort(dumped["states"][0].ravel())
    )
    assert row_wise.session.table(0).parts()["state0"] == ("float32", (1,))
    keys = np.arange(10**6, 10**6 + 30_000)
    bytes_of = []
    for model in (plain, row_wise):
        model.set_table_rows("emb", keys, np.ones((len(keys), D), np.float32))
        report = model.session.memory_report()
        bytes_of.append(sum(entry[-1] for entry in report if "optimizer states" in entry))
    assert 0 < bytes_of[1] <= bytes_of[0] // 2


@pytest.mark.parametrize("optimizer", NEW)
def test_the_dense_network_follows_the_rule(optimizer: str) -> None:
    """A dense weight is a row of its own."""
    model = make_model(_setup(optimizer))
    before = model.session.network.dense_weights().astype(np.float64)
    states = [np.zeros_like(before) for _ in range(STATES[optimizer])]
    assert model.train()
    after = model.session.network.dense_weights()
    found = (
        model.session.network.dense_optimizer_states().reshape(len(states), -1).astype(np.float64)
    )
    # The gradient is what the state says: its square (sign lost), or z with w known.
    size = np.sqrt(found[0])
    sign = -np.sign(after - before) if optimizer == "RowWiseAdaGrad" else None
    if sign is None:
        tiny = 2.0**-23
        sigma = (np.sqrt(found[0] + tiny) - np.sqrt(tiny)) / np.float32(LR[optimizer])
        gradient = found[1] + sigma * before
        np.testing.assert_allclose(np.abs(gradient), size, rtol=1e-3, atol=1e-6)
    else:
        gradient = sign * size
    wanted, _ = optimizer_step(
        optimizer, before, gradient, states, np.float32(LR[optimizer]), 1, epsilon=1e-7
    )
    distance = np.linalg.norm(after - wanted) / np.linalg.norm(wanted)
    assert distance <= 1e-4
