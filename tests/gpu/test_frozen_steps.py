# SPDX-License-Identifier: Apache-2.0
"""Steps in which a part of a model is frozen are none of its own, with graphs of the step too."""

import pytest
from model.test_frozen_steps import PARTS, RULES, check_as_if_they_had_not_been

import hugectr

pytestmark = pytest.mark.skipif(
    not hugectr.cuda.is_available(), reason="no GPU: " + hugectr.cuda.why_not()
)
OF_ONE_DEVICE = [rule for rule, setup in RULES.items() if "devices" not in setup]


@pytest.mark.parametrize("graph", [True, False])
@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("rule", OF_ONE_DEVICE)
def test_the_model_is_as_if_they_had_not_been(rule, parts, graph):
    more = {"use_cuda_graph": graph}
    check_as_if_they_had_not_been(parts, device="cuda", more=more, **RULES[rule])


@pytest.mark.gpus(2)
@pytest.mark.parametrize("parts", PARTS)
def test_over_two_gpus(parts):
    check_as_if_they_had_not_been(parts, device="cuda", **RULES["adam, two devices"])
