# SPDX-License-Identifier: Apache-2.0
"""A logit that is read several times, each time as a copy, goes by its own name in exports."""

import numpy as np
import pytest
from oracle.program import run

import hugectr
from hugectr import DenseLayer, Layer_t
from hugectr.export.image import image_of

ROWS, DENSE = 16, 3
#: What reads the logit "z" of the first loss besides, and names and types of the others' logits.
READERS = {
    "another loss": ([], ["z"]),
    "a layer": ([DenseLayer(Layer_t.Add, ["z", "y"], ["both"])], ["both"]),
    "three": ([DenseLayer(Layer_t.Add, ["z", "y"], ["both"])], ["z", "both"]),
    "parts, which a user has named": (
        [DenseLayer(Layer_t.Slice, ["wide"], ["wide_slice0", "wide_slice1"], ranges=[(0, 1)] * 2)],
        ["wide_slice0", "wide_slice1"],
    ),
}


@pytest.mark.parametrize("what", READERS)
def test_outputs(tmp_path, what):
    layers, others = READERS[what]
    rng = np.random.default_rng(1)
    dense = rng.normal(size=(ROWS, DENSE)).astype(np.float32)
    labels = [f"label{i}" for i in range(1 + len(others))]
    data = hugectr.data.from_arrays(rng.integers(0, 2, (ROWS, len(labels))), dense, {})
    model = hugectr.Model(
        hugectr.CreateSolver(batchsize=ROWS, batchsize_eval=ROWS, seed=1, device="cpu"),
        hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, data, eval_source=data),
        hugectr.CreateOptimizer(),
    )
    model.add(hugectr.Input([1] * len(labels), labels, DENSE, "dense", []))
    for top, columns in {"z": 1, "y": 1, "wide": 2}.items():
        model.add(DenseLayer(Layer_t.InnerProduct, ["dense"], [top], num_output=columns))
    model.add(DenseLayer(Layer_t.BinaryCrossEntropyLoss, ["z", "label0"], ["click"]))
    for layer in layers:
        model.add(layer)
    for label, logit in zip(labels[1:], others, strict=True):
        model.add(DenseLayer(Layer_t.MSELoss, [logit, label], [f"loss of {label}"]))
    model.compile()
    model.train()
    model.save(tmp_path)
    wanted = model.predict(data)
    for exported in (model, hugectr.load(tmp_path)):
        image = image_of(exported)
        assert image.outputs == [*dict.fromkeys(["z", *others]), "click", "probability"]
        values = run(image.program, {"dense": dense})
        np.testing.assert_allclose(values["probability"], wanted, atol=1e-5)
        np.testing.assert_allclose(values["z"][:, 0], exported.predict(data, output="z"), atol=1e-5)
        made = [step.output for step in image.program.steps]
        read = {name for step in image.program.steps for name in step.inputs}
        assert set(made) <= read | {*image.outputs}
