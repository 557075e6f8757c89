# SPDX-License-Identifier: Apache-2.0
"""float16: a batch that overflows changes nothing, is counted, and training goes on."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from model.nets import Setup, losses, make_model

import hugectr
from hugectr.data.planted import make_planted

SLOTS, DENSE, BATCH, GOOD, AFTER = 5, 3, 64, 7, 4
DYNAMIC = {"use_mixed_precision": True, "dynamic_loss_scaling": True}
BFLOAT16 = {"use_mixed_precision": True, "mixed_precision_type": "bfloat16"}
STATIC = {"use_mixed_precision": True, "scaler": 1024}


def planted(sample: int) -> Any:
    """Batches of which number GOOD holds a number that float16 does not."""
    data = make_planted(BATCH * (GOOD + 1 + AFTER), [20] * SLOTS, dense_dim=DENSE, seed=4)
    dense = data.dense.copy()
    dense[GOOD * BATCH + sample, 1] = 1e5
    return replace(data, dense=dense).to_memory("keys")


def model(more: dict[str, Any], sample: int = 5, **setup: Any) -> hugectr.Model:
    memory = planted(sample)
    setup = {"batch": BATCH, "optimizer": "Adam", "lr": 0.01, "more": more} | setup
    return make_model(Setup("tower", memory, memory, SLOTS, DENSE, **setup))


def content(compiled: hugectr.Model) -> tuple[list[Any], dict[int, list[Any]]]:
    """Dense weights and states, and the rows by key."""
    session = compiled.session
    bag = session.table(0).dump(True)
    columns = [bag["vectors"], *bag["states"]]
    rows = {int(key): [c[i].copy() for c in columns] for i, key in enumerate(bag["keys"])}
    return [session.network.dense_weights(), session.network.dense_optimizer_states()], rows


@pytest.mark.parametrize(
    ("optimizer", "update_type"),
    [("SGD", "Local"), ("Adam", "Local"), ("Adam", "Global"), ("Adam", "LazyGlobal")],
)
@pytest.mark.parametrize("more", [STATIC, DYNAMIC], ids=["static", "dynamic"])
@pytest.mark.parametrize(("devices", "sample"), [(1, 5), (2, 5), (2, BATCH - 1)])
def test_exactly_the_step_that_overflows_is_skipped(
    optimizer: str, update_type: str, more: dict[str, Any], devices: int, sample: int
) -> None:
    compiled = model(
        more, sample, devices=devices, optimizer=optimizer, update_type=update_type, l2=1e-3
    )
    assert np.isfinite(losses(compiled, GOOD)).all()
    first_scale = 65536.0 if more is DYNAMIC else 1024.0
    assert (compiled.skipped_steps(), compiled.loss_scale()) == (0, first_scale)
    dense, rows = content(compiled)

    assert not np.isfinite(losses(compiled, 1)).all()
    assert compiled.skipped_steps() == 1
    assert compiled.loss_scale() == first_scale / (2 if more is DYNAMIC else 1)
    dense_now, rows_now = content(compiled)
    for before, after in zip(dense, dense_now, strict=True):
        np.testing.assert_array_equal(before, after)
    for key, columns in rows.items():
        for before, after in zip(columns, rows_now[key], strict=True):
            np.testing.assert_array_equal(before, after)

    assert np.isfinite(losses(compiled, AFTER)).all()
    assert compiled.skipped_steps() == 1
    assert (compiled.session.network.dense_weights() != dense[0]).any()
    found = content(compiled)
    assert all(np.isfinite(a).all() for a in found[0])
    assert all(np.isfinite(c).all() for columns in found[1].values() for c in columns)


def test_running_statistics_survive_a_skipped_step() -> None:
    memory = planted(5)
    setup = Setup("batch_norm", memory, memory, SLOTS, DENSE, batch=BATCH, lr=0.01, more=STATIC)
    compiled = make_model(setup)
    losses(compiled, GOOD)
    (_, *before), *_ = compiled.session.network.non_trainables()
    losses(compiled, 1)
    (_, *after), *_ = compiled.session.network.non_trainables()
    assert compiled.skipped_steps() == 1
    np.testing.assert_array_equal(before, after)
    losses(compiled, 1)
    (_, *later), *_ = compiled.session.network.non_trainables()
    assert np.isfinite(later).all()
    assert (np.asarray(later) != before).any()


def test_the_scale_leaves_no_trace_in_the_result() -> None:
    """Scaled by a power of two and back: only what float16 would have lost differs."""
    curves = [losses(model(STATIC | {"scaler": scale}), GOOD) for scale in (128, 1024)]
    np.testing.assert_allclose(curves[0], curves[1], rtol=1e-3)


def test_a_scale_of_1_is_taken_and_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    """v4 has it where no scaler is given; what float16 loses of these gradients is little."""
    curve = losses(model({"use_mixed_precision": True}), GOOD)
    assert "scaler=1: gradients below" in capsys.readouterr().err
    np.testing.assert_allclose(curve, losses(model(STATIC), GOOD), rtol=1e-3)
    assert "scaler" not in capsys.readouterr().err


@pytest.mark.parametrize("devices", [1, 2])
def test_tables_train_and_skip_while_the_dense_network_is_frozen(devices: int) -> None:
    compiled = model(STATIC, devices=devices)
    compiled.freeze_dense()
    dense, _ = content(compiled)
    losses(compiled, GOOD)
    dense_now, rows_now = content(compiled)
    np.testing.assert_array_equal(dense[0], dense_now[0])
    losses(compiled, 1)
    assert compiled.skipped_steps() == 1
    _, rows_then = content(compiled)
    assert rows_now.keys() <= rows_then.keys()
    for key, columns in rows_now.items():
        for before, after in zip(columns, rows_then[key], strict=True):
            np.testing.assert_array_equal(before, after)
    losses(compiled, 1)
    _, rows_last = content(compiled)
    assert any((rows_last[key][0] != rows_then[key][0]).any() for key in rows_then)


def test_fit_says_how_many_steps_were_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    compiled = model(DYNAMIC)
    compiled.fit(max_iter=GOOD + 1 + AFTER, display=5, eval_interval=0, snapshot=0)
    errors = capsys.readouterr().err
    wanted = "overflowed float16: 1 (1 in all); the loss scale is now 32768"
    assert errors.count(wanted) == 1
    assert errors.count("overflowed float16") == 1


def test_fit_gives_up_when_every_step_overflows() -> None:
    memory = planted(0)
    memory = replace(memory, dense=np.full_like(memory.dense, 1e5))
    compiled = make_model(Setup("tower", memory, memory, SLOTS, DENSE, batch=BATCH, more=STATIC))
    with pytest.raises(RuntimeError, match="Loss cannot converge"):
        compiled.fit(max_iter=20, display=5, eval_interval=0, snapshot=0)
    assert compiled.skipped_steps() >= 5


@pytest.mark.parametrize("more", [{}, BFLOAT16], ids=["float32", "bfloat16"])
def test_other_types_scale_nothing(more: dict[str, Any]) -> None:
    compiled = model(more)
    losses(compiled, GOOD + 1)  # 1e5 is no overflow there
    assert (compiled.skipped_steps(), compiled.loss_scale()) == (0, 1.0)
