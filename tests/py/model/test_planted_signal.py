# SPDX-License-Identifier: Apache-2.0
"""DeepFM, DCN and DLRM learn what the same nets in float64 NumPy learn."""

from pathlib import Path

import numpy as np
import pytest
from model.nets import NETS, Setup, evaluate, losses, make_model, read_table
from oracle.numpy_models import Trainer

from hugectr.data.planted import auc, make_planted

SLOTS, DENSE, BATCH, BATCHES, EPOCHS = 6, 4, 128, 16, 12


@pytest.mark.parametrize(
    ("net", "optimizer", "lr"),
    [("deepfm", "Adam", 0.01), ("dcn", "Adam", 0.01), ("dlrm", "AdaGrad", 0.05)],
)
def test_same_auc_as_float64(net: str, optimizer: str, lr: float, tmp_path: Path) -> None:
    data = make_planted(BATCH * BATCHES, [40] * SLOTS, dense_dim=DENSE, strength=3.0)
    memory = data.to_memory("keys")
    setup = Setup(net, memory, memory, SLOTS, DENSE, batch=BATCH, optimizer=optimizer, lr=lr)

    # A pass with learning rate 0 touches every key: its dump is the first content of all rows.
    still = make_model(Setup(net, memory, memory, SLOTS, DENSE, batch=BATCH, lr=0.0))
    losses(still, BATCHES)
    still.save_params_to_files(str(tmp_path / "first"), 0)
    dense = np.fromfile(tmp_path / "first_dense_0.model", "<f4")
    tables = []
    for i, d in enumerate(NETS[net](SLOTS, setup.d)[0].values()):
        saved = read_table(tmp_path / f"first{i}_sparse_0.model", d)
        tables.append((saved.keys, saved.vectors))

    oracle = Trainer(net, dense, tables, optimizer, lr)
    keys = np.stack([keys for keys, _ in data.slots], axis=1)
    wanted = []
    for _ in range(EPOCHS):
        for batch in range(BATCHES):
            rows = slice(batch * BATCH, (batch + 1) * BATCH)
            wanted.append(oracle.train(data.label[rows], data.dense[rows], keys[rows]))
    model = make_model(setup)
    found = losses(model, EPOCHS * BATCHES)

    np.testing.assert_allclose(found[:20], wanted[:20], rtol=1e-4)
    np.testing.assert_allclose(found, wanted, rtol=2e-2)
    reference = auc(data.label, oracle.predict(keys, data.dense))
    reached = evaluate(model, BATCHES)
    print(f"{net}: AUC {reached:.5f}, float64 {reference:.5f}, hidden logit {data.ceiling:.5f}")
    assert reference > data.ceiling, "the float64 net does not overfit"
    assert abs(reached - reference) <= 0.002
