# SPDX-License-Identifier: Apache-2.0
"""Plan files that somebody wrote or took from elsewhere: what is not as it seems is said."""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest
from plan.planned_models import keys_of, model_of

import hugectr
from hugectr import InvalidArgument
from hugectr.plan.memory import MemoryPlan
from hugectr.plan.placements import FORMAT, PlacementPlan
from hugectr.plan.plan_file import plan_of_json


def plan_of(**changes) -> dict:
    table = {"name": "emb", "kind": "by_key", **changes.pop("table", {})}
    return {"format": FORMAT, "version": 1, "tables": [table], **changes}


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (plan_of(device=2), "plan: field: found 'device', .*did you mean 'devices'"),
        (plan_of(foo=1), "plan: field: found 'foo', allowed: format, version, devices"),
        (plan_of(table={"foo": 1}), r"tables\[0\]: field: found 'foo', allowed: name, kind"),
        (
            plan_of(table={"kind": "hybrid", "frequent": [1]}),
            r"tables\[0\].frequent: a plan names no frequent keys.*Placement\('hybrid'",
        ),
        (
            plan_of(devices=4, table={"bytes": [1, 2]}),
            r"tables\[0\].bytes: found '2 numbers', allowed: one for each of 4 devices",
        ),
        (
            plan_of(table={"bytes": "abc"}),
            r"tables\[0\].bytes: found 'abc', allowed: a list of bytes, one for each device",
        ),
        (plan_of(table={"host": {"x": 1}}), r"tables\[0\].host: found {'x': 1}, allowed: a list"),
        (
            plan_of(table={"kind": "replicated", "device": 1}),
            r"tables\[0\].device: found 1, allowed: none: 'replicated' is not of one device",
        ),
        (
            plan_of(table={"exchange": "rows"}),
            r"tables\[0\].exchange: found 'rows', allowed: 'auto', 'pooled'",
        ),
    ],
)
def test_fields_that_a_plan_has_not_are_refused(found, says):
    with pytest.raises(InvalidArgument, match=says):
        plan_of_json(found, "plan")


def test_a_file_need_not_say_how_many_devices():
    plan = plan_of_json(plan_of(), "plan")
    assert (plan.devices, plan.bytes) == (0, ())
    assert "emb" in str(plan)
    assert plan_of_json(plan_of(table={"bytes": [1, 2]}), "plan").bytes == (1, 2)


@pytest.mark.parametrize("exchange", [None, "auto", "pooled", "unique"])
@pytest.mark.parametrize("own", ["auto", "unique"])
def test_a_plan_may_say_how_vectors_travel(own, exchange, tmp_path):
    table = {} if exchange is None else {"exchange": exchange}
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan_of(table=table)))
    assert plan_of_json(json.loads(file.read_text()), "plan").tables[0].exchange == exchange
    model = model_of(keys_of(512, 100), 2, megabytes=1, table={"exchange": own}, plan=str(file))
    model.compile()
    model.fit(max_iter=1)
    assert model._graph.to_spec()["embeddings"][0]["exchange"] == (exchange or own)


@pytest.mark.parametrize(
    ("devices", "placement", "warned", "told"),
    [
        (8, None, True, False),
        (2, None, False, False),
        (None, None, False, False),
        (2, "replicated", False, True),
        (2, "by_key", False, False),
    ],
)
def test_other_devices_and_placements_are_told_of(
    devices, placement, warned, told, tmp_path, caplog
):
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan_of(**({"devices": devices} if devices else {}))))
    caplog.set_level(logging.INFO)
    model = model_of(
        keys_of(512, 100), 2, megabytes=1, table={"placement": placement}, plan=str(file)
    )
    model.plan()
    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert warned == any(
        level == "WARNING" and "made for 8 devices, the job has 2" in text for level, text in said
    )
    lines = [text for _, text in said if "before what tables have" in text]
    assert len(lines) == told
    assert not told or "'emb' by_key (not replicated)" in lines[0]


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        (None, "the tables' own placements, not of the plan below"),
        ("file", r"the plan that the model trains by (PATH), not of the plan below"),
        ("auto", "the plan below"),
    ],
)
def test_memory_above_a_proposal_says_whose_it_is(plan, says, tmp_path):
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan_of()))
    given = str(file) if plan == "file" else plan
    model = model_of(keys_of(512, 100), 2, megabytes=1, plan=given)
    said = f"memory of {says.replace('PATH', str(file))}:"
    assert str(model.plan(machine="cpu")).splitlines()[0] == said
    assert not str(model.plan()).startswith("memory of")


def test_a_plan_of_more_devices_places_tables_where_there_are_some(tmp_path, caplog):
    file = tmp_path / "plan.json"
    for kind in ("one_device", "by_column"):
        file.write_text(json.dumps(plan_of(devices=4, table={"kind": kind, "device": 3})))
        model = model_of(keys_of(512, 100), 2, megabytes=1, plan=str(file))
        model.compile()
        assert model.session.table(0).placement() == kind
        file.write_text(json.dumps(plan_of(table={"kind": kind, "device": 3})))
        with pytest.raises(InvalidArgument, match=r"device 3, the job has 2.*--devices 2 makes"):
            model_of(keys_of(512, 100), 2, megabytes=1, plan=str(file)).compile()
    assert caplog.text.count("made for 4 devices, the job has 2") == 2


def test_a_file_that_can_not_be_written_is_named(tmp_path):
    with pytest.raises(InvalidArgument, match=r"plan: path: '.*' is a folder; give the path"):
        plan_of_json(plan_of(), "plan").save(tmp_path)


def test_a_hybrid_of_a_plan_has_the_frequent_keys_that_the_table_names(tmp_path):
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan_of(table={"kind": "hybrid"})))
    own = hugectr.Placement("hybrid", frequent=[3, 1])
    for placement, frequent in ((own, [1, 3]), (None, None), ("by_key", None)):
        table = {"placement": placement}
        model = model_of(keys_of(512, 100), 2, megabytes=1, table=table, plan=str(file))
        model._graph.place_tables()
        found = model._graph.to_spec()["embeddings"][0]
        assert found["placement"] == "hybrid"
        assert frequent is None or list(found["frequent"]) == frequent


def test_a_compiled_model_says_where_its_tables_lie(tmp_path, capsys):
    file = tmp_path / "plan.json"
    planned = {"kind": "one_device", "device": 1, "exchange": "pooled"}
    file.write_text(json.dumps(plan_of(table=planned)))
    model = model_of(keys_of(512, 100), 2, megabytes=1, plan=str(file))
    model.summary()
    assert "one_device" not in capsys.readouterr().out, "not placed yet"
    model.compile()
    model.summary()
    assert capsys.readouterr().out.splitlines()[-1] == "emb  one_device pooled"


def test_a_table_with_a_placement_has_a_plan_s_exchange_and_its_own_budget(tmp_path):
    """Where devices ask each other for a second, sums travel."""
    rates = {"copy": 1e9, "keys": 1e9, "links": [[1, 1e9]], "latency": 0, "asking": 1.0}
    (tmp_path / "machine.json").write_text(json.dumps(rates))
    table = {"placement": "by_key"}
    model = model_of(keys_of(512, 100), 2, megabytes=1, table=table, plan="auto")
    plain = model_of(keys_of(512, 100), 2, megabytes=1, table=table)
    plan = model.plan(machine=str(tmp_path / "machine.json")).placement
    assert str(plan.tables[0]) == "by_key pooled"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("hugectr.model.placing.predict_together", lambda *_: plan)
        model.compile()
    found, own = (each._graph.to_spec()["embeddings"][0] for each in (model, plain))
    assert found == own | {"exchange": "pooled"}


def test_an_exchange_that_a_plan_file_changes_is_told_of(tmp_path, caplog):
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan_of(table={"exchange": "pooled"})))
    caplog.set_level(logging.INFO)
    table = {"exchange": "unique"}
    model_of(keys_of(512, 100), 2, megabytes=1, table=table, plan=str(file)).plan()
    assert "before what tables have: 'emb' exchange pooled (not unique)" in caplog.text


@pytest.mark.parametrize(
    "stages", [None, [1.0], {"plan": "1"}, {"plan": float("nan")}, {"dense": -1.0}]
)
def test_measured_times_are_times(stages):
    """A plan with others could be saved, and not be read again."""
    plan = PlacementPlan((), 1, 1)
    with pytest.raises(hugectr.InvalidArgument, match="beside: stage_seconds"):
        plan.beside(stages, 2)
    assert plan.beside({"plan": np.float64(0.5), "others": "x"}, 2).measured_ms == {"plan": 250.0}


def test_a_plan_on_a_terminal_has_no_commands_to_it():
    """Nor has the memory above it: names come from a config or a plan of somebody's."""
    name = "a\x1b[2Jb\nc"
    found = plan_of(
        table={"name": name}, machine=name, predicted_ms={name: 1}, uniform_ms={name: 1},
        measured_ms={name: 1}, notes=[name], lacking=[name],
    )  # fmt: skip
    said = str(plan_of_json(found, "plan"))
    assert said.count(r"a\x1b[2Jb\nc") == 7
    assert "\x1b" not in said
    memory = MemoryPlan.of([(0, "cpu:0", name, "rows", 1)], [(name, 1, 1, 1)], [name], [name])
    assert "\x1b" not in str(memory)
