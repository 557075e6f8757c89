# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of earlier versions (``tests/fixtures/checkpoints``) load to the bit, for ever."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from oracle.checkpoint_net import AFTER, CASES, build, everything, rows, train

import hugectr
from hugectr import checkpoints
from hugectr.base import log
from hugectr.checkpoints.manifest import manifest_text

FIXTURES = Path(__file__).parents[2] / "fixtures" / "checkpoints"
VERSIONS = sorted(path.name for path in FIXTURES.iterdir())
#: What is asked of a session and is not in ``everything``, because it is no part of the state.
OTHER = ("fresh", "after", "tables")


def known(version, case):
    return json.loads((FIXTURES / version / f"{case}.json").read_text())


def floats(bits):
    return np.frombuffer(bytes.fromhex("".join(bits)), np.float32)


def settings_of(case):
    """Of the model, on one process whatever wrote the checkpoint."""
    return CASES[case] | {"processes": 1}


def assert_goes_on(model, wanted, case):
    """The next losses: with the same bits where this machine computes with the same bits."""
    same = train(build(**settings_of(case)), len(wanted["fresh"])) == wanted["fresh"]
    found = train(model, AFTER)
    if same and not CASES[case].get("norm"):
        assert found == wanted["after"]
    np.testing.assert_allclose(floats(found), floats(wanted["after"]), rtol=1e-6)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("version", VERSIONS)
def test_values_are_those_that_were_saved(version, case):
    folder, wanted = FIXTURES / version / case, known(version, case)
    checkpoints.verify(checkpoints.latest(folder))
    model = build(**settings_of(case))
    assert model.resume(folder) == wanted["step"]
    found = everything(model)
    assert found == {name: wanted[name] for name in found}
    assert wanted.keys() == {*found, *OTHER}
    for index, name in enumerate(("one", "two")):
        assert rows(model.session, index) == wanted["tables"][name]
        assert len(wanted["tables"][name]) > 20
    assert_goes_on(model, wanted, case)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_link_of_a_chain_loads(version):
    """Its earlier links are states too, from which training leads to the last one."""
    folder = FIXTURES / version / "deltas"
    steps = [step for step, _ in checkpoints.published(folder)]
    assert len(steps) == 3
    last = build(**settings_of("deltas"))
    last.resume(folder)
    for step, path in checkpoints.published(folder):
        model = build(**settings_of("deltas"))
        assert model.resume(path) == step
        train(model, steps[-1] - step)
        assert everything(model) == everything(last)
        assert [rows(model.session, i) for i in (0, 1)] == [rows(last.session, i) for i in (0, 1)]


def test_what_an_old_checkpoint_does_not_say_is_said_once(monkeypatch):
    said = []
    monkeypatch.setattr(log, "warning", said.append)
    model = build(**settings_of("sgd"))
    model.resume(FIXTURES / "b17f4bf" / "sgd")
    assert len(said) == 1
    assert "does not say which graph and optimizers" in said[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hidden": 6}, "dense tensor 'hidden.weight': checkpoint (17, 5), model (17, 6)"),
        ({"vec": 5}, "rows of table 'one'"),
        ({"table": "other"}, "tables: checkpoint ['one', 'two'], model ['other', 'two']"),
        ({"optimizer": "AdaGrad"}, "dense.states: checkpoint 0 values, model 96"),
        ({"norm": True}, "running statistics: checkpoint of 0 layers, model of 1"),
        ({"seed": 12}, "trained with seed 11, the model has seed 12"),
    ],
)
def test_another_model_is_refused_by_what_an_old_checkpoint_says(changes, words):
    model = build(**settings_of("sgd") | changes)
    before = everything(model)
    with pytest.raises(hugectr.InvalidArgument) as refused:
        model.resume(FIXTURES / "b17f4bf" / "sgd")
    assert words in str(refused.value)
    assert everything(model) == before


def test_a_later_format_is_refused_by_its_number(tmp_path):
    source = checkpoints.latest(FIXTURES / "b17f4bf" / "sgd")
    path = Path(shutil.copytree(source, tmp_path / source.name))
    manifest = json.loads((path / "manifest.json").read_text()) | {"format": 5, "shape": "new"}
    model = build(**settings_of("sgd"))
    (path / "manifest.json").write_bytes(manifest_text(manifest))
    with pytest.raises(hugectr.DataError, match="has format 5, this version reads 1 to 4: update"):
        model.resume(path)
    (path / "manifest.json").write_text(json.dumps({"format": 5}))  # it may sum up in another way
    with pytest.raises(hugectr.DataError, match="has format 5, this version reads 1 to 4: update"):
        model.resume(path)
