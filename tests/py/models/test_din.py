# SPDX-License-Identifier: Apache-2.0
"""DIN of the catalogue: what it computes, in which precision, and on how many rows at once."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.histories import HISTORIES, frame

import hugectr
from hugectr import models
from hugectr.data import EncodedData, Schema
from hugectr.data.planted import auc


def built(
    data: EncodedData, schema: Schema, batch: int = 256, devices: int = 1, **solver: Any
) -> hugectr.Model:
    model = hugectr.Model(
        hugectr.CreateSolver(
            batchsize=batch, batchsize_eval=batch, max_eval_batches=4, lr=0.02, seed=5,
            i64_input_key=True, device="cpu", vvgpu=[list(range(devices))], **solver,
        ),
        hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, data, eval_source=data),
        hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local),
    )  # fmt: skip
    models.add(model, "din", schema.input_layer(), vec_size=8, hidden=(16,))
    model.compile()
    return model


def test_interest_is_the_softmax_of_the_unit_over_the_steps_that_are_there() -> None:
    columns = frame()
    schema = Schema.infer(columns, "clicked", sequences=HISTORIES)
    data = schema.encode(columns)
    model = built(data, schema)
    for _ in range(8):
        model.train()

    def read(name: str) -> Any:
        return model.predict(data, output=name).astype(np.float64)

    def weight(name: str) -> Any:
        view = model.session.network.weight_view(f"din/item/seen/{name}", 0)
        return np.asarray(view.copy_to_host(), np.float64)

    vectors, most = read("din/item"), max(map(len, columns["seen"]))
    target, steps = vectors[:, 0], vectors[:, 1 : 1 + most]
    beside = np.broadcast_to(target[:, None], steps.shape)
    x = np.concatenate([beside, steps, beside - steps, beside * steps], axis=2)
    unit = np.maximum(x @ weight("unit_fc.weight") + weight("unit_fc.bias").ravel(), 0)
    scores = (unit @ weight("unit_out.weight") + weight("unit_out.bias").ravel())[:, :, 0]
    length = np.array(list(map(len, columns["seen"])))
    there = np.arange(most) < length[:, None]
    powers = np.where(there, np.exp(scores - scores.max(1, keepdims=True)), 0)
    shares = powers / np.maximum(powers.sum(1, keepdims=True), 1e-300)
    interest = (shares[:, :, None] * steps).sum(1)
    found = read("din/item/seen/interest")
    np.testing.assert_allclose(found, interest, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(read("din/item/seen/share").ravel(), length / most, rtol=1e-6)
    product = read("din/item/seen/match/sum").ravel()
    np.testing.assert_allclose(product, (interest * target).sum(1), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("real", ["float32", "float16", "bfloat16"])
def test_it_learns_in_every_precision(real: str, tmp_path: Path) -> None:
    columns, later = frame(), frame(512, seed=9)
    schema = Schema.infer(columns, "clicked", sequences=HISTORIES)
    mixed: dict[str, Any] = {}
    if real != "float32":
        mixed = {"use_mixed_precision": True, "mixed_precision_type": real, "scaler": 1024}
    model = built(schema.encode(columns), schema, **mixed)
    model.schema = schema
    for _ in range(60):
        model.train()
    chances = model.predict(later)
    assert auc(later["clicked"], chances.astype(np.float64)) > 0.74
    model.save(tmp_path / "din")
    loaded = hugectr.load(tmp_path / "din", device="cpu")
    bound = 1e-6 if real == "float32" else 4e-3
    np.testing.assert_allclose(loaded.predict(later), chances, atol=bound)
    alone = [
        loaded.predict({name: values[i : i + 1] for name, values in later.items()}, batch_size=1)
        for i in range(8)
    ]
    np.testing.assert_allclose(np.concatenate(alone), chances[:8], atol=bound)


def test_the_model_does_not_depend_on_the_devices() -> None:
    columns = frame(1024)
    schema = Schema.infer(columns, "clicked", sequences=HISTORIES)
    data = schema.encode(columns)
    found = []
    for devices in (1, 2, 4):
        model = built(data, schema, devices=devices)
        for _ in range(12):
            model.train()
        found.append(model.predict(data))
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-4, atol=1e-6)
