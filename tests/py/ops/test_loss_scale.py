# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.reals import BFLOAT16, FLOAT16, FLOAT32, REALS

from hugectr import _core


def found(xs):
    overflow = np.full(1, np.nan, np.float32)
    _core.run_op("find_overflow", {"xs": xs, "overflow": overflow})
    return overflow[0]


@pytest.mark.parametrize("shape", [(1,), (37,), (5, 7), (300, 130), (9, 4, 3)])
@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
def test_every_element_is_looked_at(rng, real, shape):
    values = rng.standard_normal(shape)
    assert found([real.store(values)]) == 0
    for bad in (np.inf, -np.inf, np.nan):
        index = tuple(rng.integers(n) for n in shape)
        planted = values.copy()
        planted[index] = bad
        assert found([real.store(planted)]) == 1


@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
def test_the_greatest_number_is_none(real):
    greatest = {"float32": 3.4e38, "float16": 65504.0, "bfloat16": 3.38e38}[real.name]
    assert found([real.store([greatest, -greatest, 0.0, 1e-30])]) == 0


def test_what_lies_between_rows_is_not_looked_at(rng):
    wide = rng.standard_normal((40, 24)).astype(np.float16)
    wide[:, 13:] = np.inf
    assert found([wide[:, :13]]) == 0
    wide[39, 12] = np.nan
    assert found([wide[:, :13]]) == 1


def test_tensors_of_any_type_together(rng):
    xs = [real.store(rng.standard_normal((50, 8))) for real in (FLOAT32, FLOAT16, BFLOAT16)]
    assert found(xs) == 0
    for i, real in enumerate((FLOAT32, FLOAT16, BFLOAT16)):
        values = real.values(xs[i])
        values[-1, -1] = np.inf
        assert found([*xs[:i], real.store(values), *xs[i + 1 :]]) == 1
    assert found([]) == 0


class Scale:
    """The scalars of a run, and the rule in plain Python."""

    def __init__(self, scale):
        self.tensors = {
            "scale": np.array([scale], np.float32),
            "unscale": np.full(1, np.nan, np.float32),
            "good": np.zeros(1, np.int64),
            "skipped": np.zeros(1, np.int64),
        }
        self.wanted = [scale, 0.0, 0, 0]

    def step(self, overflow, dynamic, interval):
        _core.run_op(
            "loss_scale_step",
            {"overflow": np.array([overflow], np.float32), **self.tensors},
            {"dynamic": dynamic, "interval": interval},
        )
        scale, _, good, skipped = self.wanted
        unscale = 0.0 if overflow else 1 / scale
        good, skipped = (0, skipped + 1) if overflow else (good + 1, skipped)
        if dynamic and overflow:
            scale = max(scale / 2, 1.0)
        elif dynamic and good == interval:
            scale, good = min(scale * 2, 2.0**24), 0
        self.wanted = [scale, unscale, good, skipped]
        assert [value[0] for value in self.tensors.values()] == self.wanted


@pytest.mark.parametrize("dynamic", [False, True])
def test_steps_with_and_without_overflow(rng, dynamic):
    scale = Scale(1024.0)
    for overflow in rng.random(200) < 0.2:
        scale.step(3.0 if overflow else 0.0, dynamic, interval=3)  # a sum over devices
    assert scale.wanted[3] > 0
    if not dynamic:
        assert scale.wanted[0] == 1024.0


def test_dynamic_scale_stays_in_its_bounds():
    scale = Scale(4.0)
    for _ in range(5):
        scale.step(1.0, True, interval=1)
    assert scale.wanted[0] == 1.0
    for _ in range(30):
        scale.step(0.0, True, interval=1)
    assert scale.wanted[0] == 2.0**24


def test_interval_must_be_positive():
    with pytest.raises(ValueError, match="interval is 0, must be positive"):
        Scale(1.0).step(0.0, True, interval=0)
