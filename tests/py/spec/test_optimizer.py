# SPDX-License-Identifier: Apache-2.0
"""What Python makes of the core's catalogue of optimizers."""

import inspect
import json

import pytest
from oracle.optimizers import ROW_WISE, STATES

import hugectr
from hugectr import _core
from hugectr.config.json_reader import JsonObject
from hugectr.config.optimizer import optimizer_to_json, parse_optimizer
from hugectr.spec.optimizer import moves_untouched_rows

CATALOGUE = _core.optimizers()
KINDS = list(hugectr.Optimizer_t)


def test_users_names_are_those_of_the_core_in_its_order():
    assert [kind.name for kind in KINDS] == list(CATALOGUE)
    assert [kind.value for kind in KINDS] == list(range(len(KINDS)))
    assert len({kind.hparam for kind in KINDS}) == len(KINDS)


def test_states_are_those_of_the_oracle():
    assert {name: len(entry["states"]) for name, entry in CATALOGUE.items()} == STATES
    row_wise = [name for name, entry in CATALOGUE.items() if "row" in entry["states"].values()]
    assert row_wise == list(ROW_WISE)


def test_optimizers_with_moments_move_untouched_rows():
    movers = [kind.name for kind in KINDS if moves_untouched_rows(kind)]
    assert movers == ["Adam", "MomentumSGD", "Nesterov", "RMSProp"]


def test_help_says_what_the_catalogue_says():
    text = inspect.getdoc(hugectr.CreateOptimizer)
    for name, entry in CATALOGUE.items():
        assert f"Optimizer_t.{name}" in text
        assert entry["doc"] in text
        for field, about in entry["fields"].items():
            assert f"``{field}`` = {about['default']:g}" in text
            assert about["doc"] in text


def test_defaults_are_those_of_the_api():
    """The documented signature of CreateOptimizer, v3."""
    optimizer = hugectr.CreateOptimizer()
    assert optimizer.optimizer_type is hugectr.Optimizer_t.Adam
    assert optimizer.update_type is hugectr.Update_t.Global
    assert (optimizer.beta1, optimizer.beta2, optimizer.epsilon) == (0.9, 0.999, 1e-7)
    assert (optimizer.initial_accu_value, optimizer.momentum_factor) == (0.0, 0.0)
    assert optimizer.atomic_update is True
    by_place = hugectr.CreateOptimizer(*KINDS[:1], hugectr.Update_t.Local, 0.1, 0.2, 0.3, 0.4, 0.5)
    assert (by_place.beta1, by_place.beta2, by_place.epsilon) == (0.1, 0.2, 0.3)
    assert (by_place.initial_accu_value, by_place.momentum_factor) == (0.4, 0.5)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_through_json_and_back(kind):
    values = {name: 0.25 + 0.01 * i for i, name in enumerate(CATALOGUE[kind.name]["fields"])}
    optimizer = hugectr.CreateOptimizer(kind, hugectr.Update_t.LazyGlobal, **values)
    entry = json.loads(json.dumps(optimizer_to_json(optimizer)))
    assert values.items() <= entry[kind.hparam].items()
    again = parse_optimizer(JsonObject(entry, "optimizer"))
    assert again == optimizer
    assert hash(again) == hash(optimizer)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_bounds_hold_in_python_in_json_and_in_the_core(kind):
    for name, field in CATALOGUE[kind.name]["fields"].items():
        wrong = [-0.5, float("nan"), float("inf"), 1e39, "one", None, True]
        if field["below"] == 1.0:
            wrong += [1.0, 1.5, 0.99999999999]  # the last is 1 in float32
        for value in wrong:
            with pytest.raises(hugectr.InvalidArgument, match=f"{name}: found"):
                hugectr.CreateOptimizer(kind, **{name: value})
            entry = {"type": kind.name, kind.hparam: {name: value}}
            with pytest.raises(hugectr.InvalidArgument, match=rf"optimizer\.{kind.hparam}\.{name}"):
                parse_optimizer(JsonObject(entry, "optimizer"))


ADJUSTMENTS = _core.adjustments()


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_optimizer_takes_the_adjustments(kind):
    values = {name: 0.25 + 0.01 * i for i, name in enumerate(ADJUSTMENTS)}
    del values["clip_norm"]
    if kind.name == "Ftrl":
        del values["weight_decay"]
    optimizer = hugectr.CreateOptimizer(kind, **values)
    assert {name: getattr(optimizer, name) for name in values} == values
    entry = json.loads(json.dumps(optimizer_to_json(optimizer)))
    assert values.items() <= entry[kind.hparam].items()
    assert parse_optimizer(JsonObject(entry, "optimizer")) == optimizer
    plain = optimizer_to_json(hugectr.CreateOptimizer(kind))[kind.hparam]
    assert not plain.keys() & ADJUSTMENTS.keys(), "files name only what is asked for"


def test_help_says_what_the_adjustments_are():
    text = inspect.getdoc(hugectr.CreateOptimizer)
    assert list(ADJUSTMENTS) == ["weight_decay", "l1", "l2", "clip_value", "clip_norm"]
    for name, about in ADJUSTMENTS.items():
        assert f"``{name}`` = 0" in text
        assert about["doc"] in text


def test_ftrl_takes_no_decay_of_weights():
    with pytest.raises(hugectr.InvalidArgument, match=r"weight_decay: .* only with .*, not Ftrl"):
        hugectr.CreateOptimizer(hugectr.Optimizer_t.Ftrl, weight_decay=0.1)


def test_one_kind_of_clipping_at_a_time():
    with pytest.raises(hugectr.InvalidArgument, match=r"clip_norm: .* only one of it and"):
        hugectr.CreateOptimizer(clip_value=1.0, clip_norm=1.0)


def test_a_field_of_another_optimizer_is_refused():
    with pytest.raises(hugectr.InvalidArgument, match=r"lambda1: .* only with Ftrl, not Adam"):
        hugectr.CreateOptimizer(lambda1=0.5)
    entry = {"type": "Adam", "adam_hparam": {"lambda1": 0.5}}
    with pytest.raises(hugectr.InvalidArgument, match="lambda1: unknown key"):
        parse_optimizer(JsonObject(entry, "optimizer"))


def test_a_field_of_another_optimizer_may_ask_for_nothing():
    found = hugectr.CreateOptimizer(beta=0, lambda1=0.0, lambda2=0.0)
    assert found.to_spec() == hugectr.CreateOptimizer().to_spec()


def test_a_field_of_no_optimizer_is_refused():
    with pytest.raises(TypeError, match=r"'lambda3' .did you mean 'lambda"):
        hugectr.CreateOptimizer(hugectr.Optimizer_t.Ftrl, lambda3=0.5)
    with pytest.raises(AttributeError, match="lambda3"):
        hugectr.CreateOptimizer().lambda3  # noqa: B018
