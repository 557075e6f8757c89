# SPDX-License-Identifier: Apache-2.0
"""Models of the catalogue: each fits each kind of data, and computes what its paper says."""

from typing import Any

import numpy as np
import pytest
from oracle.clicks import clicks

import hugectr
from hugectr import models
from hugectr.data import Schema
from hugectr.models.sizes import model_sizes, training_sizes

ROWS = 256
COLUMNS = clicks(ROWS)
KINDS = {
    "all": ("city", "age", "tags"),
    "categories": ("city",),
    "list": ("tags",),
    "numbers": ("age",),
    "no numbers": ("city", "tags"),
}


def built(name: str, columns: tuple[str, ...], **sizes: Any) -> hugectr.Model:
    frame = {key: COLUMNS[key] for key in (*columns, "clicked")}
    schema = Schema.infer(frame, label="clicked")
    data = schema.encode(frame)
    model = hugectr.Model(
        hugectr.CreateSolver(
            batchsize=64,
            batchsize_eval=ROWS,
            max_eval_batches=1,
            lr=0.01,
            seed=1,
            i64_input_key=True,
            device="cpu",
        ),
        hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, data, eval_source=data),
        hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local),
    )
    models.add(model, name, schema.input_layer(), **sizes)
    model.compile()
    return model


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", models.NAMES)
def test_every_model_learns_from_every_kind_of_column(name: str, kind: str) -> None:
    if name == "dlrm" and kind != "all":
        with pytest.raises(hugectr.InvalidArgument, match=r"dlrm: the data has no .* columns; use"):
            built(name, KINDS[kind])
        return
    if name == "din":
        with pytest.raises(hugectr.InvalidArgument, match="no column of the data is the history"):
            built(name, KINDS[kind])
        return
    model = built(name, KINDS[kind], vec_size=4, hidden=(16,))
    for _ in range(120):
        model.train()
    least = {"all": 0.8, "categories": 0.65, "list": 0.6, "numbers": 0.6, "no numbers": 0.7}
    assert model.evaluate()["AUC"] > least[kind]


def test_the_pairs_of_a_factorization_machine() -> None:
    """logit = sum of weights + dense part + sum over pairs of categories of their dot product."""
    model = built("fm", ("city", "age", "tags"), vec_size=3)
    for _ in range(20):  # a row that was never trained is zeros
        model.train()
    model.evaluate()

    def read(name: str) -> np.ndarray[Any, Any]:
        return np.array(model.check_out_tensor(name, hugectr.Tensor_t.Evaluate), np.float64)

    rows = np.concatenate([read("fm/categories"), read("fm/tags")], axis=1)  # (rows, 2, 4)
    city, tags = rows[:, 0], rows[:, 1]
    pairs = (city[:, :3] * tags[:, :3]).sum(axis=1)
    dense = read("first/dense").ravel()
    np.testing.assert_allclose(
        read("fm/logit").ravel(), city[:, 3] + tags[:, 3] + pairs + dense, rtol=1e-4, atol=1e-6
    )


def test_what_can_not_be_built_is_refused() -> None:
    with pytest.raises(hugectr.InvalidArgument, match=r"did you mean 'deepfm'"):
        built("deepfn", ("city",))
    with pytest.raises(hugectr.InvalidArgument, match=r"no size 'vec_sise' \(did you mean"):
        built("fm", ("city",), vec_sise=3)
    with pytest.raises(hugectr.InvalidArgument, match="hidden is empty"):
        built("mlp", ("city",), hidden=())
    with pytest.raises(hugectr.InvalidArgument, match="no column to predict from"):
        built("lr", ())


@pytest.mark.parametrize("name", models.NAMES)
def test_every_model_says_when_to_use_it(name: str) -> None:
    assert "When: " in models.description(name)


def test_sizes_grow_with_the_data() -> None:
    small, large = (training_sizes(rows) for rows in (1_000, 10_000_000))
    assert small.batch_size < large.batch_size
    assert small.epochs > large.epochs >= 1
    assert model_sizes(1_000).vec_size < model_sizes(10_000_000).vec_size
    # Without evaluation nothing ends a training that goes on too long.
    assert training_sizes(200_000, stops=False).epochs < training_sizes(200_000).epochs
