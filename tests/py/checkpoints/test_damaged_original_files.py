# SPDX-License-Identifier: Apache-2.0
"""Files of the original layout that are damaged, or no files: named, and the model as it was."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from oracle.checkpoint_net import build, everything, rows, train

import hugectr
from hugectr.checkpoints.inspect import inspect_model
from hugectr.checkpoints.original_convert import from_original

SETTINGS = {"optimizer": "Adam", "update": "Local", "norm": True}


@pytest.fixture(scope="module")
def model():
    trained = build(**SETTINGS)
    train(trained, 2)
    return trained


@pytest.fixture
def prefix(model, tmp_path):
    model.save_params_to_files(str(tmp_path / "m"), 2)
    return tmp_path / "m"


def state(model):
    """What the files hold; states of rows go when rows are loaded, and come after them."""
    found = everything(model)
    vectors = [
        {key: row["vector"] for key, row in rows(model.session, index).items()} for index in (0, 1)
    ]
    return found["weights"], found["states"], found["statistics"], vectors


def pipe(file):
    file.unlink()
    os.mkfifo(file)


WAYS = {
    "pipe": pipe,
    "zeros": lambda file: (file.unlink(), file.symlink_to("/dev/zero")),
    "folder": lambda file: (file.unlink(), file.mkdir()),
    "removed": lambda file: file.unlink(),
    "empty": lambda file: os.truncate(file, 0),
    "short": lambda file: os.truncate(file, file.stat().st_size - 3),
    "half": lambda file: os.truncate(file, file.stat().st_size // 16 * 8),
    "4 TB": lambda file: os.truncate(file, 1 << 42),
}
FILES = [
    "_dense_2.model", "_opt_dense_2.model", "0_sparse_2.model/key", "0_sparse_2.model/emb_vector",
    "1_sparse_2.model/slot_id", "1_opt_sparse_2.model", "_dense_2.model.ntp.json",
]  # fmt: skip


def load(model, prefix):
    model.load_dense_weights(f"{prefix}_dense_2.model")
    model.load_dense_optimizer_states(f"{prefix}_opt_dense_2.model")
    model.load_sparse_weights([f"{prefix}{i}_sparse_2.model" for i in range(2)])
    model.load_sparse_optimizer_states([f"{prefix}{i}_opt_sparse_2.model" for i in range(2)])


def converted(prefix):
    dense = prefix.with_name("m_dense_2.model")
    return from_original(dense, prefix.parent / "native", ["one", "two"])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("file", FILES)
def test_every_file_in_every_way(model, prefix, file, way):
    before = state(model)
    place = Path(f"{prefix}{file}")
    WAYS[way](place)
    optional = file.endswith("ntp.json") and way == "removed"  # said in a warning
    if optional:
        load(model, prefix)
    else:
        with pytest.raises((hugectr.DataError, hugectr.InvalidArgument)) as refused:
            load(model, prefix)
        assert str(place.parent) in str(refused.value)
    assert state(model) == before  # what was loaded before the damaged file is the same
    if way == "4 TB":
        return  # looking into so much, or converting it, takes its time
    inspect_model(prefix.parent)
    taken = {("removed", "1_opt_sparse_2.model"), ("empty", "1_opt_sparse_2.model")}
    taken |= {("removed", "1_sparse_2.model/slot_id")}
    if optional or (way, file) in taken:
        return  # the converter takes what is there
    with pytest.raises((hugectr.DataError, hugectr.InvalidArgument)):
        model.resume(converted(prefix))
    assert state(model) == before


@pytest.mark.parametrize(
    "content",
    [
        {}, [], None, {"layers": None}, {"layers": {}}, {"layers": [1]}, {"layers": []},
        {"layers": [{"mean": [1] * 5}]},
        {"layers": [{"mean": 1, "var": 1}]},
        {"layers": [{"mean": [[1]] * 5, "var": [[1]] * 5}]},
        {"layers": [{"mean": [10**400] * 5, "var": [1] * 5}]},
        {"layers": [{"mean": ["1"] * 5, "var": [1] * 5}]},
        {"layers": [{"mean": [float("nan")] * 5, "var": [1] * 5}]},
        {"layers": [{"mean": [1] * 5, "var": [1] * 4}]},
    ],
)  # fmt: skip
def test_running_statistics_of_any_form(model, prefix, content):
    before = state(model)
    file = prefix.with_name("m_dense_2.model.ntp.json")
    for text in (json.dumps(content), json.dumps(content)[:-1], "[" * 100_000):
        file.write_text(text)
        with pytest.raises(hugectr.DataError, match=r"ntp\.json"):
            model.load_dense_weights(prefix.with_name("m_dense_2.model"))
        assert state(model) == before
        inspect_model(prefix.parent)
        with pytest.raises((hugectr.DataError, hugectr.InvalidArgument)):
            model.resume(converted(prefix))


def test_weights_are_not_loaded_without_their_statistics(prefix):
    fresh = build(**SETTINGS)
    before = state(fresh)
    prefix.with_name("m_dense_2.model.ntp.json").write_text("{}")
    with pytest.raises(hugectr.DataError, match=r"ntp\.json"):
        fresh.load_dense_weights(prefix.with_name("m_dense_2.model"))
    assert state(fresh) == before


def test_files_that_fit_take_no_memory_for_others(prefix):
    """Keys of a table whose vectors are short: seen by the sizes."""
    os.truncate(f"{prefix}0_sparse_2.model/key", 1 << 40)
    fresh = build(**SETTINGS)
    with pytest.raises(hugectr.DataError, match="key has 137438953472 rows"):
        fresh.load_sparse_weights({"one": f"{prefix}0_sparse_2.model"})
    assert rows(fresh.session, 0) == {}
    assert np.isfinite(fresh.session.network.dense_weights()).all()


def test_rows_over_the_budget_leave_the_table_alone(model, tmp_path):
    parts = model.session.table(0).parts()
    rows_before, count = rows(model.session, 0), 65536 + 1
    assert rows_before
    folder = tmp_path / "large"
    folder.mkdir()
    np.arange(count, dtype=np.int64).tofile(folder / "key")
    np.zeros((count, *parts["vector"][1]), np.float32).tofile(folder / "emb_vector")
    if "slot" in parts:
        np.zeros(count, np.uint64).tofile(folder / "slot_id")
    with pytest.raises(hugectr.OutOfMemory):
        model.load_sparse_weights({"one": folder})
    assert rows(model.session, 0) == rows_before
