# SPDX-License-Identifier: Apache-2.0
"""Resume: the same model goes on, another is refused with every difference, or takes what fits."""

import numpy as np
import pytest
from oracle.checkpoint_net import BATCH, build, data, everything, rows, train
from oracle.fake_model import FakeModel, all_rows
from oracle.thread_group import run_job

import hugectr
from hugectr.checkpoints import read_manifest, restore
from hugectr.checkpoints.description import description_of, differences
from hugectr.data import from_arrays

ADAM = {"optimizer": "Adam", "update": "Local"}
LOCALIZED = hugectr.Embedding_t.LocalizedSlotSparseEmbeddingHash


def state(model):
    return everything(model), [rows(model.session, index) for index in range(2)]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A checkpoint of the net with Adam and BatchNorm, and the model it is of."""
    model = build(**ADAM, norm=True)
    train(model, 3)
    path = model.save(tmp_path_factory.mktemp("run"))
    return path, model


#: Changes of the model -> lines of the message.
CHANGES = [
    ({"hidden": 2}, ["layer 3 'hidden' num_output: checkpoint 5, model 2"]),
    ({"optimizer": "AdaGrad"},
     ["optimizer type: checkpoint 'Adam', model 'AdaGrad'",
      "table 1 'two' optimizer type: checkpoint 'Adam', model 'AdaGrad'"]),
    ({"optimizer": "MomentumSGD"}, ["optimizer momentum_factor: checkpoint None, model 0.9"]),
    ({"update": "LazyGlobal"},
     ["table 0 'one' optimizer update_type: checkpoint 'Local', model 'LazyGlobal'"]),
    ({"beta1": 0.8}, ["optimizer beta1: checkpoint 0.9, model 0.8"]),
    ({"combiner": "mean"}, ["table 0 'one' combiner: checkpoint 'sum', model 'mean'"]),
    ({"vec": 8}, ["table 0 'one' vec_size: checkpoint 4, model 8"]),
    ({"kind": LOCALIZED}, ["table 0 'one' type: checkpoint 'Distributed', model 'Localized'"]),
    ({"table": "uno"}, ["table 0 'one' (Distributed): only in the checkpoint",
                        "table 0 'uno' (Distributed): only in the model",
                        "layer 0 'flat1' inputs: checkpoint ['one'], model ['uno']"]),
    ({"activation": "Sigmoid"}, ["layer 5 'active' type: checkpoint 'ReLU', model 'Sigmoid'"]),
    ({"concat": ["flat2", "flat1", "dense"]},
     ["layer 2 'features' inputs: checkpoint ['flat1', 'flat2', 'dense'], "
      "model ['flat2', 'flat1', 'dense']"]),
    ({"norm": False}, ["layer 4 'normed' (BatchNorm): only in the checkpoint",
                       "layer 5 'active' inputs: checkpoint ['normed'], model ['hidden']"]),
    ({"i64": False}, ["keys: checkpoint 'int64', model 'uint32'"]),
    ({"precision": "bfloat16"}, ["precision: checkpoint 'float32', model 'bfloat16'"]),
    ({"seed": 12}, ["it was trained with seed 11, the model has seed 12"]),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "lines"), CHANGES, ids=lambda c: str(c)[:40])
def test_every_difference_is_listed_and_nothing_changes(saved, changes, lines):
    other, twin = (build(**ADAM | {"norm": True} | changes) for _ in range(2))
    train(other, 1)
    train(twin, 1)
    before = state(other)
    with pytest.raises(hugectr.InvalidArgument) as refused:
        other.resume(saved[0])
    text = str(refused.value)
    for line in lines:
        assert f"\n  {line}" in text
    assert "strict=False" in text
    assert state(other) == before
    assert train(other, 2) == train(twin, 2)


@pytest.mark.parametrize(
    "changes",
    [{"lr": 0.01}, {"batch": 16}, {"model_name": "other"}, {"vvgpu": [[0, 1]]}, {"repeat": False}],
    ids=str,
)
def test_what_makes_no_other_model_is_not_compared(saved, changes):
    other = build(**ADAM | {"norm": True} | changes)
    assert other.resume(saved[0]) == 3
    assert state(other) == state(saved[1])


def test_descriptions_differ_where_the_models_do():
    """Of all pairs of changes: none is the same as another."""
    found = []
    for changes, _ in CHANGES:
        if "seed" not in changes:  # of the run, not of the model
            found.append(description_of(build(**ADAM | {"norm": True} | changes)))
    found.append(description_of(build(**ADAM | {"norm": True})))
    for a in range(len(found)):
        for b in range(len(found)):
            assert (differences(found[a], found[b]) == []) == (a == b)


def test_a_graph_file_makes_the_same_model(saved, tmp_path):
    saved[1].graph_to_json(tmp_path / "graph.json")
    own = saved[1]
    again = hugectr.Model(own.solver, own.reader_params, own.opt_params)
    again.construct_from_json(tmp_path / "graph.json")
    again.compile()
    assert differences(description_of(own), description_of(again)) == []
    assert again.resume(saved[0]) == 3


def fewer_samples():
    """The first two batches of the data: the checkpoint was behind the third."""
    whole = data()
    count = 2 * BATCH
    sparse = {
        name: whole.sparse[name][0].reshape(whole.samples, -1)[:count] for name in ("ones", "twos")
    }
    return from_arrays(whole.label[:count], whole.dense[:count], sparse)


@pytest.mark.parametrize("at_end", [False, True])
def test_a_place_that_the_data_has_not_is_refused_before_anything_changes(saved, at_end):
    settings = ADAM | {"norm": True, "source": fewer_samples(), "repeat": not at_end}
    other, twin = (build(**settings) for _ in range(2))
    for model in (other, twin):
        train(model, 1)
        if at_end:
            train(model, 1)
            assert not model.train()
    before = state(other)
    with pytest.raises(hugectr.InvalidArgument, match="there is no sample 24"):
        other.resume(saved[0])
    assert state(other) == before
    assert other.session.reader.at_end() == at_end
    assert other.train() == twin.train()
    assert other.get_current_loss() == twin.get_current_loss()


# --- strict=False ---------------------------------------------------------------------------------


def test_the_same_model_takes_everything_either_way(saved):
    strict, loose = build(**ADAM, norm=True), build(**ADAM, norm=True)
    assert strict.resume(saved[0]).left == ()
    found = loose.resume(saved[0], strict=False)
    assert found == 3
    assert found.left == ()
    assert state(loose) == state(strict) == state(saved[1])
    assert train(loose, 3) == train(strict, 3)


def weights(model):
    return {name: np.array(model.dense_weight(name)) for name in model.dense_weight_names()}


def test_what_fits_is_taken_and_what_does_not_is_left(saved):
    path, old = saved
    fresh, model = (build(**ADAM, norm=True, vec=8, hidden=5, seed=12) for _ in range(2))
    found = model.resume(path, strict=False)
    assert model.session.step() == found == 3
    assert model.session.seed() == 12
    assert rows(model.session, 1) == rows(old.session, 1)  # states too
    assert rows(model.session, 0) == {}
    a, b, c = weights(old), weights(model), weights(fresh)
    for name in ("logit.weight", "logit.bias", "hidden.bias", "normed.gamma"):
        np.testing.assert_array_equal(a[name], b[name])
    np.testing.assert_array_equal(b["hidden.weight"], c["hidden.weight"])
    assert everything(model)["statistics"] == everything(old)["statistics"]
    said = "\n".join(found.left)
    assert "rows of table 'one': vectors of 4, the model's are of 8" in said
    assert "dense tensor 'hidden.weight' (17, 5): the model's is (25, 5)" in said
    assert "seed: 11, the model keeps 12" in said
    assert len(found.left) == 3
    assert "rows of table 'two'" in found.taken
    # The states of what was taken came along, those of the rest are new.
    states = model.session.network.dense_optimizer_states().reshape(2, -1)
    size = b["hidden.weight"].size
    assert not states[:, :size].any()
    theirs = old.session.network.dense_optimizer_states().reshape(2, -1)
    np.testing.assert_array_equal(states[:, size:], theirs[:, a["hidden.weight"].size :])
    train(model, 2)


def test_states_of_another_optimizer_are_left(saved):
    path, old = saved
    model = build("AdaGrad", norm=True)
    found = model.resume(path, strict=False)
    assert {line.partition(":")[0] for line in found.left} == {
        "dense optimizer states", "optimizer states of table 'one'",
        "optimizer states of table 'two'",
    }  # fmt: skip
    for name, values in weights(old).items():
        np.testing.assert_array_equal(weights(model)[name], values)
    start = np.full(4, 0.1, np.float32).tobytes().hex()  # initial_accu_value
    for key, row in rows(model.session, 0).items():
        assert row == {"vector": rows(old.session, 0)[key]["vector"], "state0": start}
    assert (model.session.network.dense_optimizer_states() == np.float32(0.1)).all()
    train(model, 2)


def test_a_place_that_the_data_has_not_is_left(saved):
    model = build(**ADAM, norm=True, source=fewer_samples())
    train(model, 1)
    place = model.session.reader.position()
    found = model.resume(saved[0], strict=False)
    assert [line for line in found.left if "there is no sample 24" in line] == list(found.left)
    assert len(found.left) == 1
    assert model.session.reader.position() == place
    assert rows(model.session, 0) == rows(saved[1].session, 0)
    train(model, 1)


def test_a_checkpoint_in_part_is_no_base_for_deltas_and_no_run_goes_on(saved, tmp_path):
    model = build(**ADAM, norm=True, vec=8)
    model.note_touched_rows()
    model.resume(saved[0], strict=False)
    train(model, 1)
    path = model.save(tmp_path, delta=True)
    assert "chain" not in read_manifest(path)


# --- half way -------------------------------------------------------------------------------------


def damage(path, name):
    file = path / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def trained(folder):
    """A model with a checkpoint of step 2 whose second table is damaged; it trained on since."""
    model = build(**ADAM, norm=True)
    train(model, 2)
    path = model.save(folder)
    train(model, 2)
    damage(path, "table1.vector.1-of-1")
    return model, path


def test_rows_found_damaged_leave_the_model_as_it_was(tmp_path):
    (model, path), (twin, _) = trained(tmp_path / "a"), trained(tmp_path / "b")
    before = state(model)
    with pytest.raises(hugectr.DataError, match=r"table1\.vector\.1-of-1"):
        model.resume(path)
    assert state(model) == before
    assert train(model, 3) == train(twin, 3)
    assert state(model) == state(twin)
    model.save(tmp_path / "c", delta=True)


def test_more_rows_than_are_copied_leave_a_model_that_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(restore, "UNDONE", 100)
    model, path = trained(tmp_path)
    good = model.save(tmp_path / "good")
    wanted = state(model)
    with pytest.raises(hugectr.DataError, match=r"table1\.vector"):
        model.resume(path)
    for act in (
        model.train,
        model.eval,
        lambda: model.save(tmp_path / "x"),
        lambda: model.save_params_to_files(str(tmp_path / "x" / "m")),
        lambda: model.fit(max_iter=1),
        model.get_incremental_model,
        lambda: model.dense_weight("logit.bias"),
    ):
        with pytest.raises(
            hugectr.InvalidArgument, match=r"holds a part of .*resume\(\) an intact"
        ):
            act()
    assert not (tmp_path / "x").exists()
    with pytest.raises(hugectr.DataError):  # a second failure does not make it usable
        model.resume(path)
    with pytest.raises(hugectr.InvalidArgument):
        build(**ADAM, norm=True).resume(tmp_path / "nowhere")
    with pytest.raises(hugectr.InvalidArgument, match="holds a part"):
        model.train()
    model.resume(good)
    assert state(model) == wanted
    train(model, 1)


def test_more_rows_than_the_budget_leave_the_model_as_it_was(saved):
    model = build(**ADAM, norm=True, budget=20)
    train(model, 1)
    before = state(model)
    with pytest.raises(hugectr.OutOfMemory, match="may have 20"):
        model.resume(saved[0])
    assert state(model) == before


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interruption_leaves_the_model_as_it_was(saved, monkeypatch, error):
    model = build(**ADAM, norm=True)
    train(model, 1)
    before = state(model)
    real = restore.load_table

    def interrupted(table, reader, group):
        real(table, reader, group)
        if table.name() == "two":
            raise error

    monkeypatch.setattr(restore, "load_table", interrupted)
    with pytest.raises(error):
        model.resume(saved[0])
    assert state(model) == before


def test_rows_beyond_the_range_of_the_model_are_a_fault_of_the_files(tmp_path, monkeypatch):
    """A key that the model can not hold is seen when rows are there already: no InvalidArgument."""
    model = build(**ADAM)
    model.set_table_rows("one", np.array([2**40]), np.ones((1, 4), np.float32))
    path = model.save(tmp_path)
    narrow = build(**ADAM, i64=False)
    monkeypatch.setattr("hugectr.checkpoints.restore_plan.differences", lambda *_: [])
    before = state(narrow)
    with pytest.raises(hugectr.DataError, match="does not fit the model"):
        narrow.resume(path)
    assert state(narrow) == before


# --- jobs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("undone", [1 << 20, 100])
def test_all_processes_decide_alike(tmp_path, monkeypatch, undone):
    monkeypatch.setattr(restore, "UNDONE", undone)
    old = {(0, key): key for key in range(40)}

    def save(group):
        model = FakeModel(group, 4)
        model.train({(0, key): -key for key in range(60)}, 7)
        model.save(tmp_path)

    for _, error in run_job(2, save):
        assert error is None
    damage(next(tmp_path.glob("step-*")), "table0.vector.2-of-2")
    models = {}

    def resume(group):
        models[group.rank] = model = FakeModel(group, 4)
        if group.rank != 0:  # one has few rows, the others many
            model.train(old, 3)
        model.resume(tmp_path)

    for _, error in run_job(4, resume):
        assert isinstance(error, hugectr.DataError)
        assert "table0.vector.2-of-2" in str(error)
    kept = [models[rank] for rank in sorted(models)]
    assert {bool(model.unusable) for model in kept} == {undone == 100}
    if undone > 100:
        assert sorted(key for _, key in all_rows(kept)) == [k for k in range(40) if k % 4]
        assert [model.session.step() for model in kept] == [0, 3, 3, 3]


def test_a_place_refused_by_one_process_moves_none(tmp_path):
    def save(group):
        model = FakeModel(group, 3)
        model.train({(0, 1): 1}, 7)
        model.save(tmp_path)

    for _, error in run_job(3, save):
        assert error is None
    models = {}

    def resume(group):
        models[group.rank] = model = FakeModel(group, 3)
        if group.rank == 1:
            model.session.reader.last_sample = 20
        model.resume(tmp_path)

    for _, error in run_job(3, resume):
        assert isinstance(error, hugectr.InvalidArgument)
        assert "process 1: there is no sample 70" in str(error)
    assert [model.session.reader.position()["sample"] for model in models.values()] == [0, 0, 0]
    assert all_rows(models.values()) == {}
