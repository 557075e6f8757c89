# SPDX-License-Identifier: Apache-2.0
"""Bytes of files of the original layout, changed anywhere: refused by name, or read as they are."""

from collections import Counter

import numpy as np
import pytest
from oracle.checkpoint_net import build, rows, train
from oracle.damage import damaged

import hugectr
from hugectr.checkpoints.inspect import format_report, inspect_model
from hugectr.checkpoints.original_convert import from_original

NAMES = ("one", "two")
REFUSED = (hugectr.DataError, hugectr.InvalidArgument, hugectr.OutOfMemory)
#: Eight bytes that mean something as a key, a slot or a float.
ODD = [
    b"\xff" * 8, bytes(8), (2**63 - 1).to_bytes(8, "little"), (2**63).to_bytes(8, "little"),
    (2**32 - 1).to_bytes(8, "little"), np.float32([np.nan, np.inf]).tobytes(),
]  # fmt: skip


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model, and the files that it wrote."""
    model = build("Adam", "Local", norm=True)
    train(model, 2)
    folder = tmp_path_factory.mktemp("original")
    model.save_params_to_files(str(folder / "m"), 2)
    return model, folder


def _changed(rng, right):
    """Bytes with damage, or with a word of eight that is another's or an odd one."""
    if rng.integers(2):
        return damaged(rng, right)
    content = bytearray(right)
    at, other = (8 * int(rng.integers(len(content) // 8)) for _ in range(2))
    content[at : at + 8] = [*ODD, content[other : other + 8]][int(rng.integers(len(ODD) + 1))]
    return bytes(content)


def _said(call, *arguments):
    """Why a call refuses what it is given; nothing when it does not."""
    try:
        call(*arguments)
    except REFUSED as error:
        return str(error)
    return ""


def _table(folder):
    """What a folder of a table holds, read by NumPy."""
    keys = np.fromfile(folder / "key", np.int64)
    slots = np.zeros(len(keys), np.uint64)
    if (folder / "slot_id").exists():
        slots = np.fromfile(folder / "slot_id", np.uint64)
    vectors = np.fromfile(folder / "emb_vector", np.float32).reshape(len(keys), -1)
    return keys, slots, vectors


def _check_table(model, index, keys, slots, vectors):
    wanted = {f"{s}:{k}": v.tobytes().hex() for s, k, v in zip(slots, keys, vectors, strict=True)}
    assert len(wanted) == len(keys)
    assert {name: row["vector"] for name, row in rows(model.session, index).items()} == wanted


def _load(model, folder):
    model.load_dense_weights(folder / "m_dense_2.model")
    model.load_dense_optimizer_states(folder / "m_opt_dense_2.model")
    model.load_sparse_weights([f"{folder}/m{i}_sparse_2.model" for i in range(2)])
    model.load_sparse_optimizer_states([f"{folder}/m{i}_opt_sparse_2.model" for i in range(2)])


def test_folders(saved, tmp_path):
    model, folder = saved
    rng, outcomes = np.random.default_rng(21), Counter()
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for turn in range(240):
        file = files[turn % len(files)]
        right = file.read_bytes()
        file.write_bytes(_changed(rng, right))
        said = _said(_load, model, folder)
        outcomes["refused" if said else "read"] += 1
        assert not said or str(folder) in said
        if not said:
            network = model.session.network
            dense = network.dense_weights().tobytes()
            assert dense == (folder / "m_dense_2.model").read_bytes()
            states = network.dense_optimizer_states().tobytes()
            assert states == (folder / "m_opt_dense_2.model").read_bytes()
            for index in range(2):
                _check_table(model, index, *_table(folder / f"m{index}_sparse_2.model"))
        format_report(inspect_model(folder))
        said = _said(from_original, folder / "m_dense_2.model", tmp_path / str(turn), NAMES)
        assert not said or str(folder) in said or "values that are infinite" in said
        file.write_bytes(right)
    assert min(outcomes["refused"], outcomes["read"]) > 60


def test_single_files_of_older_versions(saved, tmp_path):
    model, folder = saved
    rng, outcomes = np.random.default_rng(22), Counter()
    for index, slotted in ((0, False), (1, True)):
        keys, slots, vectors = _table(folder / f"m{index}_sparse_2.model")
        slot = [("slot", np.uint64)] if slotted else []
        kind = np.dtype([("key", np.int64), *slot, ("vector", np.float32, vectors.shape[1:])])
        whole = np.empty(len(keys), kind)
        whole["key"], whole["vector"] = keys, vectors
        if slotted:
            whole["slot"] = slots
        file = tmp_path / f"{NAMES[index]}.model"
        for turn in range(100):
            content = _changed(rng, whole.tobytes()) if turn else whole.tobytes()
            file.write_bytes(content)
            said = _said(model.load_sparse_weights, {NAMES[index]: file})
            outcomes["refused" if said else "read"] += 1
            assert not said or str(file) in said
            if said:
                continue
            found = np.frombuffer(content, kind)
            own = found["slot"] if slotted else np.zeros(len(found), np.uint64)
            _check_table(model, index, found["key"], own, found["vector"])
    assert min(outcomes["refused"], outcomes["read"]) > 30
