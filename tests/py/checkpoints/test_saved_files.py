# SPDX-License-Identifier: Apache-2.0
"""Saved files have the original's layouts, and load on any number of devices."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from model.nets import Setup, evaluate, losses, make_model, read_table

import hugectr
from hugectr.data.planted import make_planted

SLOTS, DENSE, D, STEPS = 5, 3, 8, 30
TYPES = ("DistributedSlotSparseEmbeddingHash", "LocalizedSlotSparseEmbeddingHash")
DATA = make_planted(768, [20, 100, 7, 50, 60], hotness=(1, 2), dense_dim=DENSE, seed=5)
MEMORY = DATA.to_memory("keys")
BATCHES = 8


def _setup(embedding: str, devices: int, net: str = "tower") -> Setup:
    return Setup(
        net,
        MEMORY,
        MEMORY,
        SLOTS,
        DENSE,
        d=D,
        nnz=2,
        batch=96,
        devices=devices,
        optimizer="Adam",
        lr=0.005,
        embedding=embedding,
    )


@pytest.mark.parametrize("embedding", TYPES)
def test_layouts(embedding: str, tmp_path: Path) -> None:
    model = make_model(_setup(embedding, 4))
    losses(model, STEPS)
    model.save_params_to_files(str(tmp_path / "m"), STEPS)
    localized = embedding.startswith("Localized")

    # Dense: W[in, out] row-major, then b[out], layer by layer, and nothing else.
    width = SLOTS * D + DENSE
    shapes = [(width, 16), (16,), (16, 1), (1,)]
    raw = (tmp_path / f"m_dense_{STEPS}.model").read_bytes()
    count = sum(int(np.prod(shape)) for shape in shapes)
    assert len(raw) == 4 * count
    assert len((tmp_path / f"m_opt_dense_{STEPS}.model").read_bytes()) == 2 * 4 * count

    folder = tmp_path / f"m0_sparse_{STEPS}.model"
    names = {"key", "emb_vector"} | ({"slot_id"} if localized else set())
    assert {path.name for path in folder.iterdir()} == names
    table = read_table(folder, D)
    wanted = sorted((int(k), s) for s, (keys, _) in enumerate(DATA.slots) for k in set(keys))
    if localized:
        assert table.slot_ids is not None
        found = zip(table.keys.tolist(), table.slot_ids.tolist(), strict=True)
        assert sorted(found) == wanted
    else:
        assert sorted(table.keys.tolist()) == [k for k, _ in wanted]
    states = (tmp_path / f"m0_opt_sparse_{STEPS}.model").read_bytes()
    assert len(states) == 2 * len(table.keys) * D * 4

    # The files alone give the model's own predictions.
    dense = np.frombuffer(raw, "<f4").astype(np.float64)
    parts, place = [], 0
    for shape in shapes:
        size = int(np.prod(shape))
        parts.append(dense[place : place + size].reshape(shape))
        place += size
    row = {int(key): i for i, key in enumerate(table.keys)}  # slots share no key here
    batch = 96
    flat = np.zeros((batch, SLOTS, D))
    for slot, (keys, rows) in enumerate(DATA.slots):
        for sample in range(batch):
            for key in keys[rows[sample] : rows[sample + 1]]:
                flat[sample, slot] += table.vectors[row[int(key)]]
    x = np.concatenate([flat.reshape(batch, -1), DATA.dense[:batch]], axis=1)
    logit = np.maximum(x @ parts[0] + parts[1], 0) @ parts[2] + parts[3]
    assert model.eval()
    values = model.check_out_tensor("logit", hugectr.Tensor_t.Evaluate)
    if not np.all((values >= 0) & (values <= 1)):  # the loss may leave the probability there
        values = 1 / (1 + np.exp(-values.astype(np.float64)))
    expected = 1 / (1 + np.exp(-logit))
    distance = np.linalg.norm(values.reshape(-1, 1) - expected) / np.linalg.norm(expected)
    assert distance <= 1e-5


def test_a_table_without_slots_leaves_none_of_an_older_one(tmp_path: Path) -> None:
    for embedding in reversed(TYPES):
        model = make_model(_setup(embedding, 1))
        losses(model, 2)
        model.save_params_to_files(str(tmp_path / "m"), 2)
    assert embedding.startswith("Distributed")
    files = {path.name for path in (tmp_path / "m0_sparse_2.model").iterdir()}
    assert files == {"key", "emb_vector"}


@pytest.mark.parametrize("net", ["tower", "batch_norm"])
@pytest.mark.parametrize("embedding", TYPES)
def test_four_devices_write_one_and_three_read(embedding: str, net: str, tmp_path: Path) -> None:
    model = make_model(_setup(embedding, 4, net))
    losses(model, STEPS)
    auc = evaluate(model, BATCHES)
    prefix = tmp_path / "m"
    model.save_params_to_files(str(prefix), STEPS)
    for devices in (1, 3):
        fresh = make_model(replace(_setup(embedding, devices, net), seed=99))
        before = evaluate(fresh, BATCHES)
        fresh.load_dense_weights(f"{prefix}_dense_{STEPS}.model")
        fresh.load_sparse_weights([f"{prefix}0_sparse_{STEPS}.model"])
        # A logit may differ in its last bit between batch shares; an AUC step is 1 / (n0 n1).
        assert abs(evaluate(fresh, BATCHES) - auc) <= 1e-5
        assert abs(before - auc) > 1e-2
        again = tmp_path / f"again_{devices}"
        fresh.save_params_to_files(str(again), STEPS)
        for name in ("key", "emb_vector", "slot_id"):
            old = Path(f"{prefix}0_sparse_{STEPS}.model") / name
            if old.exists():
                new = Path(f"{again}0_sparse_{STEPS}.model") / name
                assert new.read_bytes() == old.read_bytes()
        old, new = (Path(f"{p}_dense_{STEPS}.model") for p in (prefix, again))
        assert new.read_bytes() == old.read_bytes()


def test_training_goes_on_where_it_stopped_with_other_devices(tmp_path: Path) -> None:
    model = make_model(_setup(TYPES[0], 4))
    losses(model, BATCHES)
    prefix = tmp_path / "m"
    model.save_params_to_files(str(prefix), 1)
    fresh = make_model(replace(_setup(TYPES[0], 2), seed=99))
    fresh.load_dense_weights(f"{prefix}_dense_1.model")
    fresh.load_sparse_weights({"emb": f"{prefix}0_sparse_1.model"})
    fresh.load_dense_optimizer_states(f"{prefix}_opt_dense_1.model")
    fresh.load_sparse_optimizer_states([f"{prefix}0_opt_sparse_1.model"])
    fresh.session.set_step(model.session.step())
    np.testing.assert_allclose(losses(fresh, BATCHES), losses(model, BATCHES), rtol=1e-4)
