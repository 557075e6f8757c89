# SPDX-License-Identifier: Apache-2.0
"""Arguments that the chosen optimizer or loss does not read are told, and the others are not."""

import pytest

import hugectr
from hugectr.base.no_effect import forget_warnings

KIND, LAYER = hugectr.Optimizer_t, hugectr.Layer_t
RATES = ("warmup_steps=10", "end_lr=0.1")


@pytest.fixture
def said(capsys):
    """Warnings since the last look."""
    forget_warnings()

    def lines():
        return [line for line in capsys.readouterr().err.splitlines() if "WARNING" in line]

    return lines


def test_fields_of_other_optimizers(said):
    hugectr.CreateOptimizer(KIND.SGD, momentum_factor=0.9)
    (line,) = said()
    assert "CreateOptimizer of SGD: momentum_factor=0.9 is accepted and has no effect" in line
    assert "only MomentumSGD or Nesterov has it" in line


def test_a_schedule_without_its_rate(said):
    hugectr.CreateOptimizer(KIND.SGD, warmup_steps=10, end_lr=0.1)
    lines = said()
    assert [any(rate in line for line in lines) for rate in RATES] == [True, True]
    assert all("without learning_rate the schedule is the solver's" in line for line in lines)


def test_a_lambda_without_a_regularizer(said):
    names = LAYER.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]
    hugectr.DenseLayer(*names, **{"lambda": 0.1})
    (line,) = said()
    assert "not read by this layer type: lambda (without use_regularizer=True)" in line
    hugectr.DenseLayer(*names, use_regularizer=True, **{"lambda": 0.1})
    assert said() == []


def test_what_is_read_or_the_default_is_not_told(said):
    hugectr.CreateOptimizer(KIND.MomentumSGD, momentum_factor=0.9, beta1=0.9, epsilon=1e-7)
    hugectr.CreateOptimizer(KIND.SGD, learning_rate=0.1, warmup_steps=10, momentum_factor=0.0)
    hugectr.CreateOptimizer(KIND.Adam, beta1=0.8, beta2=0.99, epsilon=1e-6)
    hugectr.DenseLayer(LAYER.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"])
    assert said() == []
