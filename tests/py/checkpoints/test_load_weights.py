# SPDX-License-Identifier: Apache-2.0
"""Model.load_weights: weights and tables for fine-tuning; and resume that can not be done."""

import json

import numpy as np
import pytest
from oracle.framed_model import BATCH, build, fitted, frame, trained
from oracle.small_data import generate
from oracle.small_net import SIZES, build as build_small

import hugectr
from hugectr.checkpoints.manifest import manifest_text
from hugectr.spec.enums import DataReaderType_t


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    model = trained(steps=6)
    return model, model.save(tmp_path_factory.mktemp("run"))


def fresh(**kind):
    schema = fitted()
    return build(schema.encode(frame()), schema, **kind)


def rows_of(model):
    found = []
    for table in model.session.tables():
        order = table.order(0)
        found.append(table.read(order, 0, len(order), True))
    return found


def state_of(model):
    """All that a failed call must leave."""
    rows = [
        (r["keys"].tobytes(), r["vectors"].tobytes(), [s.tobytes() for s in r["states"]])
        for r in rows_of(model)
    ]
    network = model.session.network
    return (
        rows,
        network.dense_weights().tobytes(),
        network.dense_optimizer_states().tobytes(),
        model.session.step(),
        model.session.reader.position(),
        model.session.learning_rate_state(),
    )


def test_weights_and_rows_come_and_nothing_of_the_training(saved):
    trained_model, path = saved
    model = fresh()
    for _ in range(2):
        model.train()
    place, step = model.session.reader.position(), model.session.step()
    run = model.run_id
    model.load_weights(path)
    assert (
        model.predict(frame(), BATCH).tobytes() == trained_model.predict(frame(), BATCH).tobytes()
    )
    assert (model.session.reader.position(), model.session.step()) == (place, step)
    assert not model.session.network.dense_optimizer_states().any()  # Adam begins at 0
    for mine, theirs in zip(rows_of(model), rows_of(trained_model), strict=True):
        assert mine["keys"].tobytes() == theirs["keys"].tobytes()
        assert mine["vectors"].tobytes() == theirs["vectors"].tobytes()
        assert not any(state.any() for state in mine["states"])
    assert model.run_id != run
    assert model.resumed_in is None
    assert model.train()


def test_another_optimizer_seed_and_precision_may_take_them(saved):
    trained_model, path = saved
    wanted = trained_model.predict(frame(), BATCH)
    assert fresh(optimizer="AdaGrad").load_weights(path) is None
    model = fresh(optimizer="SGD", precision="bfloat16", devices=2)
    model.load_weights(path.parent)  # the newest
    np.testing.assert_allclose(model.predict(frame(), BATCH), wanted, rtol=0, atol=2e-2)
    assert model.train()


def test_one_without_a_description_serves_too(saved, tmp_path):
    """As of an earlier version, or converted from the original layout."""
    model, _ = saved
    path = model.save(tmp_path)
    manifest = json.loads((path / "manifest.json").read_text()) | {"description": None}
    (path / "manifest.json").write_bytes(manifest_text(manifest))
    other = fresh()
    other.load_weights(path)
    assert other.predict(frame(), BATCH).tobytes() == model.predict(frame(), BATCH).tobytes()


def test_other_shapes_are_refused_and_the_model_is_as_it_was(saved, tmp_path):
    _, path = saved
    model = fresh(hidden=8)
    model.train()
    before = state_of(model)
    with pytest.raises(hugectr.InvalidArgument, match=r"other weights than the model") as refused:
        model.load_weights(path)
    assert "dense tensor 'hidden.weight'" in str(refused.value)
    with pytest.raises(hugectr.InvalidArgument, match=r"load_weights: .* is no checkpoint"):
        model.load_weights(tmp_path)
    assert state_of(model) == before


@pytest.mark.parametrize("name", ["dense.weights", "table1.vector.1-of-1"])
def test_damage_leaves_the_model_as_it_was(saved, tmp_path, name):
    model, _ = saved
    path = model.save(tmp_path)
    content = bytearray((path / name).read_bytes())
    content[-1] ^= 1
    (path / name).write_bytes(content)
    other = fresh()
    other.train()
    before = state_of(other)
    with pytest.raises(hugectr.DataError, match=f"{name} is damaged"):
        other.load_weights(path)
    assert state_of(other) == before
    assert other.train()


# --- resume that can not be done ------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Norm", "Raw", "Parquet"])
@pytest.mark.parametrize("repeat", [True, False])
def test_a_place_that_no_format_has_is_refused_before_anything_changes(tmp_path, kind, repeat):
    """The checkpoint was 960 samples into its data; this data has 240."""
    reader = {"slot_size_array": SIZES} if kind == "Raw" else {}
    if kind == "Raw":
        reader["float_label_dense"] = True
    if kind == "Norm":
        reader["check_type"] = hugectr.Check_t.Sum
    for folder in ("long", "short"):
        (tmp_path / folder).mkdir()
    long = generate(tmp_path / "long", kind)[0]
    few = {"num_files": 1, "num_samples_per_file": 240, "num_samples": 240}
    short = generate(tmp_path / "short", kind, **few)[0]
    model = build_small(DataReaderType_t[kind], long, repeat=repeat, **reader)
    for _ in range(10):
        assert model.train()
    path = model.save(tmp_path / "run")
    other, twin = (
        build_small(DataReaderType_t[kind], short, repeat=repeat, **reader) for _ in range(2)
    )
    for one in (other, twin):
        assert one.train()
    before = state_of(other)
    with pytest.raises((hugectr.InvalidArgument, hugectr.DataError)):
        other.resume(path)
    assert state_of(other) == before
    for _ in range(2):
        assert other.train() == twin.train()
        assert other.get_current_loss() == twin.get_current_loss()
    other.load_weights(path)  # apart from the place in the data
    assert other.session.step() == twin.session.step()
