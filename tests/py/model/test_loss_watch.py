# SPDX-License-Identifier: Apache-2.0
"""A loss that is no number ends the training soon, wherever it comes from, and nothing is lost."""

from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest
from model.nets import Setup, make_model

import hugectr
from hugectr.data.planted import make_planted

SLOTS, DENSE, BATCH, BATCHES = 5, 3, 64, 60
SOON = 20  # steps after the first without a finite loss
FLOAT16 = {"use_mixed_precision": True, "scaler": 1024}
#: Finite, as readers demand; ten times as much is not (see ``model``).
HUGE = 3e38
BFLOAT16 = {"use_mixed_precision": True, "mixed_precision_type": "bfloat16"}


def data(bad: Any = (), value: float = HUGE, batches: int = BATCHES) -> Any:
    """Batches, of which those numbered ``bad`` hold the value in one sample."""
    samples = make_planted(BATCH * batches, [20] * SLOTS, dense_dim=DENSE, seed=4)
    dense = samples.dense.copy()
    for number in bad:
        dense[number * BATCH + BATCH - 1, 1] = value
    return replace(samples, dense=dense).to_memory("keys")


def model(memory: Any, more: Any = (), **setup: Any) -> hugectr.Model:
    settings = {"batch": BATCH, "optimizer": "Adam", "lr": 0.01, "more": dict(more)} | setup
    compiled = make_model(Setup("tower", memory, memory, SLOTS, DENSE, **settings))
    # Half of the units get plus, half minus infinity of a huge value; the logit is then no number.
    weights = np.asarray(compiled.dense_weight("fc1.weight")).copy()
    weights[-2] = np.where(np.arange(weights.shape[1]) % 2, 10.0, -10.0)
    compiled.set_dense_weight("fc1.weight", weights)
    return compiled


def steps_until_noticed(compiled: hugectr.Model) -> tuple[int, str]:
    """Steps that train() did before it raised, and what it said."""
    for steps in count(compiled.session.step()):
        try:
            assert compiled.train()
        except hugectr.NonFiniteLoss as error:
            assert compiled.session.step() == steps
            return steps, str(error)
    raise AssertionError


@pytest.mark.parametrize("value", [HUGE, -HUGE])
@pytest.mark.parametrize("bad", [0, 6, 7, 8, 29])
def test_train_says_so_within_20_steps(bad: int, value: float) -> None:
    steps, text = steps_until_noticed(model(data([bad], value)))
    assert bad + 1 <= steps <= bad + 1 + SOON
    assert f"it was not a finite number in step {bad + 1} " in text
    assert "Model.resume" in text


@pytest.mark.parametrize("devices", [2, 4])
@pytest.mark.parametrize("more", [{}, BFLOAT16], ids=["float32", "bfloat16"])
def test_it_does_not_matter_which_device_sees_it(devices: int, more: dict[str, Any]) -> None:
    """Only the last device has the sample."""
    steps, text = steps_until_noticed(model(data([11]), more, devices=devices))
    assert "in step 12 " in text
    assert steps <= 12 + SOON


def test_a_frozen_dense_network_hides_nothing() -> None:
    """No gradient of it carries the NaN from one device to the others."""
    compiled = model(data([11]), devices=2)
    compiled.freeze_dense()
    steps, text = steps_until_noticed(compiled)
    assert "in step 12 " in text
    assert steps <= 12 + SOON


def test_weights_that_are_no_numbers_are_noticed() -> None:
    compiled = model(data())
    for _ in range(5):
        compiled.train()
    compiled.set_dense_weight("fc1.bias", np.full(16, np.inf, np.float32))
    steps, _ = steps_until_noticed(compiled)
    assert steps <= 6 + SOON


def test_fit_ends_with_it_whatever_is_displayed() -> None:
    compiled = model(data([140], batches=150))
    with pytest.raises(hugectr.NonFiniteLoss, match=r"Loss cannot converge.* in step 141 "):
        compiled.fit(max_iter=150, eval_interval=0, snapshot=0)
    compiled = model(data([149], batches=150))
    with pytest.raises(hugectr.NonFiniteLoss, match=" in step 150 "):
        compiled.fit(max_iter=150, eval_interval=0, snapshot=0)


@pytest.mark.parametrize("bad", [0, 9])
def test_the_end_of_the_data_is_late_enough(bad: int) -> None:
    compiled = model(data([bad], batches=10), repeat=False)
    for _ in range(10):
        assert compiled.train()
    with pytest.raises(hugectr.NonFiniteLoss, match=f" in step {bad + 1} "):
        compiled.train()
    assert compiled.session.step() == 10
    assert not compiled.train()


def test_float16_skips_batches_that_overflow() -> None:
    """Up to seven in a row: the step is skipped, and nothing is lost."""
    bad = [*range(3, 10), *range(20, 27), 40]
    compiled = model(data(bad, 1e5), FLOAT16)
    for _ in range(BATCHES):
        assert compiled.train()
    compiled.check_loss()
    assert compiled.skipped_steps() == len(bad)


def test_float16_gives_up_when_nothing_else_comes() -> None:
    steps, text = steps_until_noticed(model(data(range(5, BATCHES), 1e5), FLOAT16))
    assert "in 8 steps in a row, beginning with step 6 " in text
    assert "float16" in text
    assert steps <= 6 + SOON


def test_training_goes_on_from_a_checkpoint(tmp_path: Any) -> None:
    """What is published is finite, a resumed model is not blamed for what was before."""
    compiled = model(data([12]))
    for _ in range(10):
        compiled.train()
    path = compiled.save(tmp_path)
    weights = compiled.session.network.dense_weights()
    assert np.isfinite(weights).all()
    for _ in range(4):
        compiled.train()
    with pytest.raises(hugectr.NonFiniteLoss, match=" in step 13 "):
        compiled.save(tmp_path)
    assert compiled.latest_checkpoint(tmp_path) == path
    for step in (1, 2, 7):  # noticed or not by then
        compiled.resume(path)
        np.testing.assert_array_equal(compiled.session.network.dense_weights(), weights)
        for _ in range(step):
            compiled.train()
    compiled.resume(path)
    compiled.set_source("")  # from the first batch on: twelve good ones
    for _ in range(12):
        compiled.train()
    compiled.check_loss()
    assert np.isfinite(compiled.get_current_loss())


def test_fit_publishes_nothing_that_is_broken(tmp_path: Any) -> None:
    compiled = model(data([21]))
    with pytest.raises(hugectr.NonFiniteLoss):
        compiled.fit(
            max_iter=60,
            display=0,
            eval_interval=0,
            snapshot=0,
            checkpoint_dir=tmp_path,
            checkpoint_interval=5,
        )
    compiled.wait_for_save()
    assert compiled.latest_checkpoint(tmp_path).name == "step-0000000020"


def test_a_weight_beyond_float32_is_not_saved(tmp_path: Any) -> None:
    """The loss of the step that made it was finite."""
    compiled = model(data())
    compiled.train()
    compiled.set_dense_weight("logit.bias", np.full(1, np.nan, np.float32))
    with pytest.raises(hugectr.NonFiniteLoss, match="step 1 left dense weights"):
        compiled.save(tmp_path)
    assert compiled.latest_checkpoint(tmp_path) is None


def test_evaluation_leaves_the_training_loss_alone() -> None:
    compiled = model(data(), devices=2)
    compiled.train()
    loss = compiled.get_current_loss()
    average = compiled.evaluate()
    assert average
    assert compiled.get_current_loss() == loss
