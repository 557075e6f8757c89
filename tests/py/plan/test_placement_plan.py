# SPDX-License-Identifier: Apache-2.0
"""The planner: near the best there is, complete, soon, and a file that can be edited."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from functools import partial
from xml.etree import ElementTree

import numpy as np
import pytest
from model.placed_models import (
    BATCH,
    LOCALIZED,
    data_of,
    make_model,
    names_of,
    outcome,
    placed,
    random_tables,
    rows_of,
)

import hugectr
from hugectr.model.placing import predict
from hugectr.plan import PlacementPlan
from hugectr.plan.cost import CostModel
from hugectr.plan.dense_work import DenseTime
from hugectr.plan.job import Choice, Job, asks, choices_of
from hugectr.plan.machine import read_machine
from hugectr.plan.picture import plan_page
from hugectr.plan.placements import FORMAT
from hugectr.plan.plan_file import plan_of_json, read_plan
from hugectr.plan.planning import plan_placements
from hugectr.plan.search import Search
from hugectr.plan.table_load import KINDS, FrequentLoad, TableLoad
from hugectr.plan.whole_step import PHASES, hidden


def random_loads(rng: np.random.Generator, count: int) -> list[TableLoad]:
    loads = []
    for i in range(count):
        of_device = float(rng.uniform(0.02, 1))
        slots = int(rng.choice([1, 1, 3]))
        loads.append(
            TableLoad(
                f"t{i}",
                int(10 ** rng.uniform(1, 7.5)),
                int(rng.choice([1, 4, 16, 32, 64, 128])),
                slots,
                slots * float(rng.choice([1, 1, 3, 10])),
                of_device * float(rng.uniform(0.3, 1)),
                of_device,
                int(rng.choice([0, 16])),
                KINDS if rng.random() < 0.7 else ("by_key", "one_device", "replicated"),
                FrequentLoad(50, float(rng.uniform(0.1, 1)), of_device, of_device)
                if rng.random() < 0.4
                else None,
            )
        )
    return loads


def printed_step(model: CostModel, seconds: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Whole steps by the line of docs/placement.md, of phases (..., phases, 2 devices): all but
    plan and moves, without what of vectors and gradients is hidden on its way, and of what these
    move a share; or plan and moves, where they are longer."""
    asking = (model.fixed(True) - model.fixed(False))[0, 0] * asked
    phases = (seconds + model.fixed(False)).max(axis=-1)
    fixed = model.fixed(False)[[0, 5], 0].sum() + asking
    beside, rest = phases[..., 0] + phases[..., 5] + asking, phases[..., 1:5].sum(axis=-1)
    moved = model.job.machine.beside * (beside - fixed)
    before, behind = model.job.dense.before_vectors, model.job.dense.behind_gradients
    share = model.job.machine.hides
    hidden = np.minimum(phases[..., 2], share * before) + np.minimum(phases[..., 3], share * behind)
    return np.maximum(beside, rest - hidden + model.job.dense.whole + moved)


def brute_force(model: CostModel, loads: list[TableLoad]) -> float:
    """The shortest whole step of all combinations."""
    sums, asked = np.zeros((1, *model.fixed(False).shape)), np.zeros(1, bool)
    for load in loads:
        choices = choices_of(load, model.job)
        each = np.stack([model.cost(load, c).seconds for c in choices])
        sums = (sums[:, None] + each).reshape(-1, *each.shape[1:])
        asked = (asked[:, None] | np.array([asks(load, c) for c in choices])).reshape(-1)
    return float(printed_step(model, sums, asked).min())


@pytest.mark.parametrize(
    "dense",
    [DenseTime(), DenseTime(2e-4, 2e-5, 5e-5), DenseTime(1e-2), DenseTime(1e-2, 1e-3, 2e-3)],
    ids=["none", "small", "large", "large, hides all"],
)
@pytest.mark.parametrize("machine", ["h100", "h200", "cpu"])
@pytest.mark.parametrize("seed", range(8))
def test_near_brute_force_on_small_cases(seed, machine, dense):
    rng = np.random.default_rng(seed)
    devices = int(rng.choice([2, 3, 4]))
    loads = random_loads(rng, int(rng.integers(1, 5)))
    rates = replace(read_machine(machine), memory=0)
    job = Job(devices, 4096 * devices, rates, "bfloat16", dense=dense)
    model = CostModel(job, loads)
    chosen = Search(model, loads).best()
    both = list(zip(loads, chosen, strict=True))
    seconds = np.sum([model.cost(t, c).seconds for t, c in both], axis=0)
    found = float(printed_step(model, seconds, np.array(any(asks(t, c) for t, c in both))))
    # Beyond what there is wherever tables lie, which would hide what is lost.
    wherever = model.fixed(False)[:, 0]
    least = dense.whole + wherever[1:5].sum() - hidden(*wherever[2:4], job.hiding)
    assert found - least <= 1.03 * (brute_force(model, loads) - least)
    plan = plan_placements(job, loads)
    np.testing.assert_allclose(plan.training_ms, 1e3 * found, rtol=1e-5, atol=1e-5)
    assert plan.training_ms <= min(plan.uniform_ms.values()) * (1 + 1e-6) + 1e-5


def test_a_thousand_tables_are_all_there(rng):
    loads = random_loads(rng, 1000)
    job = Job(8, 524288, read_machine("h200"), "bfloat16")
    begin = time.process_time()
    plan = plan_placements(job, loads)
    took = time.process_time() - begin
    assert [table.name for table in plan.tables] == [load.name for load in loads]
    assert all(sum(table.bytes) > 0 for table in plan.tables)
    assert took < 60, "far more than the second it takes"


def test_memory_of_devices_is_kept(rng):
    """Two giants that only fit where they are split."""
    machine = replace(read_machine("h100"), memory=10_000_000_000)
    giant = TableLoad("giant", 100_000_000, 32, 1, 1.0, 0.9, 0.95)  # 16.8 GB
    small = [TableLoad(f"small{i}", 1000, 16, 1, 1.0, 0.01, 0.05) for i in range(20)]
    plan = plan_placements(Job(4, 65536, machine), [giant, replace(giant, name="other"), *small])
    assert max(plan.bytes) <= machine.memory
    kinds = {table.name: table.kind for table in plan.tables}
    assert {kinds["giant"], kinds["other"]} <= {"by_key", "by_column"}
    # Copies of all of it have no room, and no time to be compared with.
    assert "replicated" not in plan.uniform_ms
    assert "by_key" in plan.uniform_ms


def test_what_is_given_stays(rng):
    loads = random_loads(rng, 6)
    fixed = {"t1": Choice("one_device", 2), "t3": Choice("replicated")}
    plan = plan_placements(Job(4, 8192, read_machine()), loads, fixed)
    assert (plan.tables[1].kind, plan.tables[1].device) == ("one_device", 2)
    assert plan.tables[3].kind == "replicated"


@pytest.mark.parametrize(("near", "first", "holders"), [(0, 2, 2), (0, 1, 3), (2, 2, 2), (2, 3, 1)])
def test_columns_begin_where_the_table_says(rng, near, first, holders):
    """On devices of one process; the plan's file says so, too."""
    load = replace(random_loads(rng, 1)[0], vec_size=24, slots=1)
    job = Job(4, 8192, read_machine(), near=near)
    plan = plan_placements(job, [load], {load.name: Choice("by_column", first)})
    held = np.array(plan.tables[0].bytes) > 0
    assert held.tolist() == [first <= r < first + holders for r in range(4)]
    again = plan_of_json(plan.to_json(), "plan")
    assert (again.tables[0].kind, again.tables[0].device) == ("by_column", first)
    whole = plan_placements(job, [load], {load.name: Choice("by_column")})
    assert whole.tables[0].device is None


def test_a_table_that_says_how_its_vectors_travel_keeps_it():
    """Others may have their sums travel, where they would be asked for rows."""
    job, load = Job(2, 8192, read_machine()), TableLoad("t", 1000, 16, 2)
    pooled = [choice.kind for choice in choices_of(load, job) if choice.exchange == "pooled"]
    assert pooled == ["by_key", "by_slot", "one_device", "one_device"]
    for exchange in ("pooled", "unique"):
        own = choices_of(replace(load, exchange=exchange), job)
        assert all(choice.exchange is None for choice in own)
        assert [asks(replace(load, exchange=exchange), c) for c in own if c.kind == "by_key"] == [
            exchange == "unique"
        ]
    assert all(choice.exchange is None for choice in choices_of(load, Job(1, 8192, read_machine())))


def test_costs_of_choices_are_those_worked_out_for_each(rng):
    loads = random_loads(rng, 20)
    model = CostModel(Job(4, 8192, read_machine("h200"), "bfloat16"), loads)
    for load in loads:
        for choice in choices_of(load, model.job) * 2:
            found, alone = model.cost(load, choice), model._cost(load, choice)
            np.testing.assert_allclose(found.seconds, alone.seconds, rtol=1e-12)
            np.testing.assert_array_equal(found.held.device, alone.held.device)
        choices = choices_of(load, model.job)
        together = model.costs(load, choices)
        for c, choice in enumerate(choices):
            alone = model.cost(load, choice)
            np.testing.assert_array_equal(together.seconds[c], alone.seconds)
            np.testing.assert_array_equal(together.device[c], alone.held.device)
            np.testing.assert_array_equal(together.host[c], alone.held.host)
            assert together.lacking[c] == alone.held.lacking


@pytest.mark.parametrize(("kind", "slots", "times"), [("one_device", 1, 2), ("by_slot", 3, 1.2)])
def test_who_asks_for_rows_pools_them(kind, slots, times):
    load = TableLoad("t", 1_000_000, 64, slots, 20.0 * slots, 0.02, 0.03)
    model = CostModel(Job(4, 65536, read_machine("h200"), "bfloat16"), [load])
    unique, pooled, by_key = (
        model.cost(replace(load, exchange=exchange), Choice(placed)).seconds[:, :4]
        for exchange, placed in (("unique", kind), ("pooled", kind), ("unique", "by_key"))
    )
    gather, update = PHASES.index("gather"), PHASES.index("update")
    for phase in (gather, update):
        # Owners alone do what is theirs, and all of it where sums travel.
        assert pooled[phase, 0] > times * unique[phase, 0] > times * unique[phase, -1] > 0
        assert unique[phase].sum() == pytest.approx(by_key[phase].sum(), rel=0.2)
    assert pooled[gather, -1] == 0


@pytest.mark.parametrize("kind", ["replicated", "by_column"])
def test_where_rows_are_everywhere_or_in_columns_the_exchange_changes_nothing(kind):
    load = TableLoad("t", 100_000, 64, 1, 1.0, 0.3, 0.4)
    model = CostModel(Job(4, 65536, read_machine("h200"), "bfloat16"), [load])
    found = [
        model.cost(replace(load, exchange=exchange), Choice(kind)).seconds
        for exchange in ("auto", "pooled", "unique")
    ]
    # Of a hybrid what is rare goes by key, of which there is next to nothing here.
    np.testing.assert_allclose(found, [found[0]] * 3, rtol=1e-6, atol=1e-5)
    assert (found[0][0].max() > 1e-5) == (kind != "by_column"), (
        "replicas tell each other their keys"
    )


def test_a_placement_that_is_given_leaves_the_exchange_open():
    rates = replace(read_machine("h200"), asking=1.0, memory=0)
    loads = [TableLoad(f"t{i}", 10_000, 16, 1, 1.0, 0.01, 0.02) for i in range(3)]
    plan = plan_placements(Job(2, 8192, rates), loads, {"t1": Choice("by_key")})
    assert (plan.tables[1].kind, plan.tables[1].exchange) == ("by_key", "pooled")
    assert plan.training_ms < 10


def test_a_plan_of_many_tables_does_without_asking_where_that_is_shorter():
    """What asking takes once is saved by no table alone."""
    rates = replace(read_machine("h200"), asking=1.0, asking_table=0.0, memory=0)
    loads = [
        TableLoad(f"t{i}", 10_000, 16, 1, 1.0, 0.01, 0.02, kinds=("by_key",)) for i in range(5)
    ]
    plan = plan_placements(Job(2, 8192, rates), loads)
    assert [table.exchange for table in plan.tables] == ["pooled"] * 5
    assert plan.training_ms < 10 < plan.uniform_ms["by_key"]


def test_a_plan_is_a_file_that_can_be_edited(rng, tmp_path):
    plan = plan_placements(Job(4, 8192, read_machine()), random_loads(rng, 5))
    plan.save(tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json") == plan
    edited = json.loads((tmp_path / "plan.json").read_text())
    edited["tables"][0] = {"name": "t0", "kind": "one_device", "device": 3}
    (tmp_path / "plan.json").write_text(json.dumps(edited))
    assert str(read_plan(tmp_path / "plan.json").tables[0]) == "one_device 3"
    assert "t0" in str(plan)
    assert f"{plan.fixed_ms['plan']:.3f} of it launches and waits" in str(plan)
    # What planning moves is shared with the step; its launches and waits are not.
    planned, fixed = plan.ms["plan"], plan.fixed_ms["plan"]
    whole = plan.step_ms - planned + 2.0 + 0.7 * (planned - fixed)
    longer = f"longer by 70% of {planned - fixed:.3f} ms (plan without"
    said = f"{whole:.3f} ms, plan beside it, which makes it {longer}"
    assert said in str(replace(plan, dense_ms=2.0))


def test_what_hides_is_said_and_kept(rng):
    """A plan's text and page say it, and a file goes on predicting the same."""
    dense = DenseTime(2e-3, 3e-5, 6e-5)
    job = Job(4, 65536, read_machine("h200"), "bfloat16", dense=dense)
    plan = plan_placements(job, random_loads(rng, 4))
    assert plan.hiding_ms == {"send vectors": 0.03, "send gradients": 0.06}
    assert 0 < plan.hidden_ms <= 0.09 + 1e-9
    without = replace(plan, hiding_ms={})
    np.testing.assert_allclose(plan.training_ms, without.training_ms - plan.hidden_ms, rtol=1e-6)
    said = f"{plan.hidden_ms:.3f}"
    assert f"hides {said} ms of what travels" in str(plan)
    assert f"<td>-{said}</td>" in plan_page(plan)
    assert "of what travels" not in str(without) + plan_page(without)
    again = plan_of_json(json.loads(json.dumps(plan.to_json())), "plan.json")
    assert again == plan
    assert again.training_ms == plan.training_ms
    # Devices that share their cores hide nothing, nor does one device.
    on_cpu = Job(2, 8192, read_machine("cpu"), dense=dense)
    alone = Job(1, 8192, read_machine("h200"), dense=dense)
    assert on_cpu.hiding == alone.hiding == (0.0, 0.0)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda plan: plan.pop("format"), "its 'format' must be"),
        (lambda plan: plan.update(version=9), "version: found 9"),
        (lambda plan: plan.update(tables=3), "tables: found 3"),
        (lambda plan: plan["tables"][0].update(kind="by_moon"), "kind: found 'by_moon'"),
        (lambda plan: plan["tables"][0].update(kind="replicated", device=1), "device: found 1"),
        (lambda plan: plan["tables"].append(plan["tables"][0]), "each table once"),
        (lambda plan: plan["tables"][0].update(name=5), "name: found 5"),
    ],
)
def test_files_that_are_no_plans_are_refused(rng, change, says):
    plan = plan_placements(Job(2, 8192, read_machine()), random_loads(rng, 2)).to_json()
    change(plan)
    with pytest.raises(hugectr.InvalidArgument, match=says):
        plan_of_json(plan, "plan.json")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[1", "no JSON"),
        ("[]", "an object of rates"),
        ('{"copy": 1e9, "keys": 1e9, "links": [[2, 1e9], [1, 1e9]]}', "sizes that ascend"),
        ('{"copy": -1, "keys": 1e9, "links": [[2, 1e9]]}', "copy"),
        ('{"speed": 1}', "field"),
        ('{"copy": 1e9, "keys": 1e9, "links": [[2, 1e9]], "launch": -1}', "launch"),
    ],
)
def test_machines_that_are_none_are_refused(text, says, tmp_path):
    (tmp_path / "machine.json").write_text(text)
    with pytest.raises(hugectr.InvalidArgument, match=says):
        read_machine(tmp_path / "machine.json")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"copy": 4240}, "copy: found 4240, allowed: 1e.06 to 1e.14 bytes a second"),  # GB/s
        ({"keys": 21.8}, "keys: found 21.8, allowed: 1000 to 1e.18 keys a second"),
        ({"links": [[2, 1e15]]}, "links.0..1.: found 10{15}.0, allowed: 1e.06 to 1e.14 bytes a s"),
        ({"links": [[2, 195]]}, "links.0..1.: found 195, allowed: .* bytes a second"),
        ({"flops": [44, 330, 720]}, "flops: found 44, allowed: .* operations a second"),
        ({"update": 2140}, "update: found 2140, allowed: .* bytes a second"),
        ({"copy": 1e300}, "copy: found 1e.300, allowed: .* bytes a second"),
        ({"launch": 6.5}, "launch: found 6.5, allowed: 0 to 1 seconds"),  # us
        ({"latency": 15}, "latency: found 15, allowed: 0 to 1 seconds"),
        ({"memory": 137}, "memory: found 137, allowed: bytes"),  # GB
        ({"host_memory": 2048}, "host_memory: found 2048, allowed: bytes"),
        ({"beside": 70}, "beside: found 70, allowed: a number >= 0 and <= 1"),  # per cent
    ],
)
def test_rates_in_other_units_are_refused(change, says, tmp_path):
    rates = {"copy": 1e9, "keys": 1e9, "links": [[2, 1e9]]}
    (tmp_path / "machine.json").write_text(json.dumps(rates | change))
    with pytest.raises(hugectr.InvalidArgument, match=says):
        read_machine(tmp_path / "machine.json")


def test_files_of_earlier_versions_say_op_for_launch(tmp_path):
    rates = {"copy": 1e9, "keys": 1e9, "links": [[2, 1e9]]}
    (tmp_path / "machine.json").write_text(json.dumps(rates | {"op": 2e-6}))
    assert read_machine(tmp_path / "machine.json").launch == 2e-6


def test_a_plan_that_takes_longer_is_the_step(rng):
    plan = plan_placements(Job(2, 8192, read_machine()), random_loads(rng, 5))
    longer = replace(plan, ms={**plan.ms, "plan": 50.0}, dense_ms=1.0)
    assert longer.training_ms == 50.0
    assert "50.000 ms, as long as plan beside it" in str(longer)


def test_the_picture_is_a_page_that_says_who_holds_what(rng):
    plan = plan_placements(Job(4, 8192, read_machine()), random_loads(rng, 5))
    plan = replace(plan, machine="a <b> & c")
    page = plan_page(plan.beside({"embedding_forward": 0.005, "dense": 1.0}, 4))
    svg = ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])
    titles = [title.text or "" for title in svg.iter("title")]
    for table in plan.tables:
        held = sum(count > 0 for count in table.bytes)
        assert sum(title.startswith(f"{table.name}: ") for title in titles) == held
    assert "a &lt;b&gt; &amp; c" in page
    assert "<td>measured: embedding_forward</td><td>1.250</td>" in page
    assert "<td>measured: dense</td><td>250.000</td>" in page
    assert "dense network" not in page
    slower = replace(plan, dense_ms=2.5)
    assert "<td>dense network</td><td>2.500</td>" in plan_page(slower)
    assert f"a whole step of {slower.training_ms:.3f} ms" in plan_page(slower)
    assert f"a whole step of {slower.training_ms:.3f} ms" in slower._repr_html_()
    assert "<script" not in page


def test_auto_is_the_model_of_one_device(tmp_path):
    tables = [replace(table, placement=None) for table in random_tables(31)]
    wanted = outcome(make_model(placed(tables, "by_key"), [[0]]), 40)
    model = make_model(tables, [[0, 1, 2, 3]], plan="auto")
    found = outcome(model, 40)
    np.testing.assert_allclose(found["losses"], wanted["losses"], rtol=1e-5)
    model.save(tmp_path / "run")
    # A plan may change at resume: of a file, edited so that every kind is in it.
    plan = model.plan(machine="cpu").placement
    assert isinstance(plan, PlacementPlan)
    assert model.plan().placement is None
    measured = plan.beside(model.stage_seconds(), 40)
    assert measured.measured_ms["embedding_forward"] > 0
    assert plan_of_json(measured.to_json(), "plan") == measured
    assert "measured:" in str(measured)
    kinds = ("one_device", "replicated", "by_column", "by_key")
    names = [table.name for table in plan.tables]
    moved = [
        {"name": name, "kind": kinds[i % 4]} | ({"device": 1} if i % 4 == 0 else {})
        for i, name in enumerate(names)
    ]
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan.to_json() | {"tables": moved}))
    again = make_model(tables, [[0, 1]], plan=str(file))
    placements = [table.placement() for table in again.session.tables()]
    assert placements == [table["kind"] for table in moved]
    again.resume(tmp_path / "run")
    for name, values in rows_of(model).items():
        np.testing.assert_array_equal(rows_of(again)[name], values)
    assert again.train()


def test_the_memory_of_an_auto_plan_is_that_of_the_plan_that_is_shown(caplog):
    """Of a machine that is named; the model then trains by one for the machine it is on."""
    tables = [replace(table, placement=None) for table in random_tables(31)]
    graph_of = partial(make_model, tables, [[0, 1, 2, 3]])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(hugectr.Model, "compile", lambda model: None)
        model, wanted = graph_of(plan="auto"), graph_of(plan=None)
        shown = model.plan(machine="h200")
        wanted = graph_of(plan=wanted.plan(machine="h200").placement)
    assert shown.memory == wanted.plan().memory
    assert not [record for record in caplog.records if "virtual devices" in record.getMessage()]
    model.compile()
    trained = [table.placement() for table in model.session.tables()]
    by_plan = {table.name: table.kind for table in model.plan(machine="cpu").placement.tables}
    assert trained == [by_plan[f"table{i}"] for i in range(len(tables))]


def test_plans_of_other_models_are_refused(tmp_path):
    tables = [replace(table, placement=None) for table in random_tables(32)]
    plan = make_model(tables, [[0, 1]]).plan(machine="cpu").placement
    with pytest.raises(hugectr.InvalidArgument, match="is not in it"):
        make_model(tables, [[0, 1]], plan=replace(plan, tables=plan.tables[1:]))
    other = replace(plan.tables[0], name="tabel0")
    with pytest.raises(hugectr.InvalidArgument, match="did you mean 'table0'"):
        make_model(tables, [[0, 1]], plan=replace(plan, tables=(other, *plan.tables[1:])))
    far = replace(plan.tables[0], kind="one_device", device=5)
    with pytest.raises(hugectr.InvalidArgument, match="device 5, the job has 2"):
        make_model(tables, [[0, 1]], plan=replace(plan, tables=(far, *plan.tables[1:])))
    for none in (tmp_path / "none.json", "x" * 5000, "\0"):
        with pytest.raises(hugectr.InvalidArgument, match="'auto', or a JSON file"):
            make_model(tables, [[0, 1]], plan=str(none))
    for value in (plan.to_json(), 5, [plan]):
        with pytest.raises(hugectr.InvalidArgument, match="CreateSolver: plan: found"):
            hugectr.CreateSolver(plan=value)
    assert LOCALIZED in {table.kind for table in tables}


def test_a_hybrid_of_a_plan_has_its_share_of_the_budget(tmp_path, capfd):
    """Its rare rows are by key, so that all devices together hold no more than by any placement."""
    rows, samples = 3000, 6000
    keys = np.concatenate([np.arange(rows), np.zeros(samples - rows, np.int64)])
    data = hugectr.data.from_arrays(
        np.arange(samples) % 2, None, {"keys": np.random.default_rng(1).permutation(keys)[:, None]}
    )

    def model_of(kind, devices=4):
        plan = tmp_path / f"{kind}.json"
        table = {"name": "emb", "kind": kind}
        plan.write_text(json.dumps({"format": FORMAT, "version": 1, "tables": [table]}))
        model = hugectr.Model(
            hugectr.CreateSolver(
                batchsize=120, batchsize_eval=120, device="cpu", vvgpu=[list(range(devices))],
                plan=str(plan), i64_input_key=True, seed=1,
            ),
            hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, data, eval_source=data),
            hugectr.CreateOptimizer(hugectr.Optimizer_t.SGD),
        )  # fmt: skip
        model.add(hugectr.Input(
            1, "label", 0, "dense", [hugectr.DataReaderSparseParam("keys", 1, True, 1)]
        ))  # fmt: skip
        model.add(hugectr.SparseEmbedding(
            hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash, 0, 4, "sum", "emb", "keys",
            max_vocabulary_size_per_gpu=500,
        ))  # fmt: skip
        flat = hugectr.DenseLayer(hugectr.Layer_t.Reshape, ["emb"], ["flat"], leading_dim=4)
        fc = hugectr.DenseLayer(hugectr.Layer_t.InnerProduct, ["flat"], ["fc"], num_output=1)
        loss = hugectr.Layer_t.BinaryCrossEntropyLoss
        for layer in (flat, fc, hugectr.DenseLayer(loss, ["fc", "label"], ["loss"])):
            model.add(layer)
        model.compile()
        return model

    for kind, budget in {"by_key": 500, "hybrid": 500, "replicated": 2000}.items():
        model = model_of(kind)
        assert model.session.tables()[0].placement() == kind
        said = capfd.readouterr().out
        assert f"Embedding emb: placed {kind}" in said
        assert f"max_vocabulary_size_per_gpu_={budget} (emb)" in said
        frequent = int(kind == "hybrid")  # key 0
        assert model.table_stats()[0]["max_rows"] == 4 * 500 + frequent
        with pytest.raises(hugectr.OutOfMemory, match=r"needs \d+ rows and may have") as refused:
            model.fit(max_iter=50, display=0, eval_interval=0, snapshot=0)
        # More devices do not help where each has all rows.
        assert ("use more devices" in str(refused.value)) == (kind != "replicated")
        assert ("place it by key" in str(refused.value)) == (kind == "replicated")


def test_sampled_keys_are_those_of_the_data():
    """Means and shares of distinct rows, against NumPy."""
    tables = [replace(table, placement=None) for table in random_tables(33)]
    model = make_model(tables, [[0, 1]])
    seen = {}

    def keep(job, loads, fixed):
        seen.update({load.name: load for load in loads})
        return plan_placements(job, loads, fixed)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("hugectr.model.placing.plan_placements", keep)
        predict(model._graph, "cpu")
    data = data_of(tables)
    for i, table in enumerate(tables):
        rows, count = [], 0
        for name in names_of(i, table):
            keys, offsets = data.sparse[name]
            for bucket in range(BATCH * table.slots):
                slot = bucket % table.slots if table.kind is LOCALIZED else 0
                own = keys[int(offsets[bucket]) : int(offsets[bucket + 1])]
                rows += [(slot, int(key)) for key in own]
            count += len(keys)
        load = seen[f"table{i}"]
        assert load.keys == pytest.approx(count / data.samples)
        # The first of the batches that the mean is of.
        first = len(set(rows)) / max(1, len(rows))
        assert load.distinct == pytest.approx(first, abs=0.15)
        assert load.distinct <= load.distinct_of_device + 1e-9


@pytest.mark.parametrize(("slots", "most"), [(1, 2000), (3, 1334), (4, 1000)])
def test_by_slot_of_a_plan_has_room_for_the_slots_of_the_fullest_device(tmp_path, slots, most):
    """A budget of 1,000 rows a device is one of 2,000, of which a device has those of its slots."""
    plan = tmp_path / "plan.json"
    table = {"name": "t", "kind": "by_slot"}
    plan.write_text(json.dumps({"format": FORMAT, "version": 1, "tables": [table]}))
    keys = np.arange(64 * slots).reshape(64, slots)
    data = hugectr.data.from_arrays(np.arange(64) % 2, None, {"keys": keys})
    model = hugectr.Model(
        hugectr.CreateSolver(
            batchsize=16, batchsize_eval=16, device="cpu", vvgpu=[[0, 1]], plan=str(plan),
            i64_input_key=True, seed=1,
        ),
        hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, data, eval_source=data),
        hugectr.CreateOptimizer(hugectr.Optimizer_t.SGD),
    )  # fmt: skip
    params = [hugectr.DataReaderSparseParam("keys", 1, True, slots)]
    model.add(hugectr.Input(1, "label", 0, "dense", params))
    model.add(hugectr.SparseEmbedding(
        LOCALIZED, 0, 4, "sum", "t", "keys", max_vocabulary_size_per_gpu=1000
    ))  # fmt: skip
    kinds, wide = hugectr.Layer_t, 4 * slots
    for layer in (
        hugectr.DenseLayer(kinds.Reshape, ["t"], ["flat"], leading_dim=wide),
        hugectr.DenseLayer(kinds.InnerProduct, ["flat"], ["fc"], num_output=1),
        hugectr.DenseLayer(kinds.BinaryCrossEntropyLoss, ["fc", "label"], ["loss"]),
    ):
        model.add(layer)
    model.compile()
    numbers = np.arange(most)  # of slot 0, on the first device with the slots 0, 2
    model.set_table_rows("t", numbers, np.zeros((most, 4), np.float32), np.zeros(most, np.int64))
    with pytest.raises(hugectr.OutOfMemory):
        model.set_table_rows("t", [10**6], np.zeros((1, 4), np.float32), [0])


def test_tables_without_a_device_are_predicted_where_they_will_lie():
    tables = [replace(table, placement="one_device") for table in random_tables(7)]
    model = make_model(tables, [[0, 1]])
    predicted = {table.name: table.device for table in predict(model._graph, "cpu").tables}
    assert predicted == model._graph.table_devices()
    assert set(predicted.values()) == {0, 1}, "dealt"
