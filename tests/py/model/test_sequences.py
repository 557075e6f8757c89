# SPDX-License-Identifier: Apache-2.0
"""Layers of sequences and shapes in one net: devices, JSON, 16 bits."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from model.nets import Setup, losses, make_model

import hugectr
from hugectr.data import MemoryDataset
from hugectr.data.planted import make_planted

SLOTS, DENSE, STEPS = 5, 3, 40


@cache
def _data() -> MemoryDataset:
    sizes = [30, 200, 7, 50, 400]
    return make_planted(1000, sizes, hotness=(1, 2), dense_dim=DENSE, seed=5).to_memory("keys")


def _setup(**changes: object) -> Setup:
    setup = Setup("sequences", _data(), _data(), SLOTS, DENSE, nnz=2, batch=64, lr=0.2)
    return replace(setup, **changes)  # type: ignore[arg-type]


def test_any_number_of_devices_trains_the_same_model() -> None:
    one = make_model(_setup())
    curve = losses(one, STEPS)
    assert curve[-10:].mean() < curve[:10].mean() - 0.003, "the model does not learn"
    for devices in (2, 8):
        model = make_model(_setup(devices=devices))
        np.testing.assert_allclose(losses(model, STEPS), curve, rtol=1e-5, err_msg=f"{devices}")
        wanted = one.session.network.dense_weights()
        found = model.session.network.dense_weights()
        assert np.linalg.norm(found - wanted) <= 1e-4 * np.linalg.norm(wanted)


def test_16_bits_follow_the_same_curve() -> None:
    curve = losses(make_model(_setup()), STEPS)
    more = {"use_mixed_precision": True, "scaler": 1024.0}
    assert np.abs(losses(make_model(_setup(more=more)), STEPS) - curve).max() <= 0.02


def test_a_graph_in_json_is_the_same_model(tmp_path: Path) -> None:
    model = make_model(_setup())
    model.graph_to_json(tmp_path / "graph.json")
    layers = json.loads((tmp_path / "graph.json").read_text())["layers"]
    entries = {layer["type"]: layer for layer in layers}
    assert entries["GRU"]["gru_param"] == {
        "num_output": 6,
        "batchsize": 64,
        "SeqLength": SLOTS,
        "vector_size": 8,
    }
    assert entries["Scale"]["scale_param"] == {"axis": 0, "factor": 16}
    assert entries["Select"]["dim"] == 1
    assert entries["Select"]["index"] == [SLOTS - 1]
    assert entries["MultiHeadAttention"]["num_attention_heads"] == 2
    again = hugectr.Model(model.solver, model.reader_params, model.opt_params)
    again.construct_from_json(tmp_path / "graph.json", include_dense_network=True)
    again.compile()
    again.graph_to_json(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "graph.json").read_text()
    np.testing.assert_array_equal(losses(again, 5), losses(model, 5))


def test_the_summary_shows_shapes_of_several_rows_a_sample() -> None:
    model = make_model(_setup())
    text = "\n".join(str(row) for row in model.layer_summary())
    assert "history" in text
    assert "attended" in text
