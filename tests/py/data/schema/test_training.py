# SPDX-License-Identifier: Apache-2.0
"""From a frame with text and gaps to a model that learns; and the example of docs/schema.md."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

import hugectr
from hugectr.data import ListField, Schema

PAGE = Path(__file__).parents[4] / "docs" / "schema.md"
ROWS = 2000


def clicks(rng, rows):
    """A frame whose click depends on a city, on whether an age is known, and on a tag."""
    city = rng.choice(np.array(["Rome", "Oslo", None, "Bern", "Pune"], object), rows)
    age = np.where(rng.random(rows) < 0.3, np.nan, rng.integers(18, 80, rows))
    tags = [
        list(rng.choice(["a", "b", "c"], rng.integers(0, 3), replace=False)) for _ in range(rows)
    ]
    score = 2.0 * (city == "Oslo") - 2.0 * np.isnan(age) + 2.0 * np.array(["a" in t for t in tags])
    return {
        "city": city,
        "age": age,
        "tags": ["|".join(t) for t in tags],
        "day": rng.integers(0, 10**6, rows).astype("datetime64[h]"),
        "user": [f"user {i}" for i in range(rows)],
        "clicked": (rng.random(rows) < 1 / (1 + np.exp(0.5 - score))).astype(int),
    }


def model_of(schema, data):
    inputs = schema.input_layer()
    model = hugectr.Model(
        hugectr.CreateSolver(
            batchsize=100,
            batchsize_eval=100,
            max_eval_batches=10,
            i64_input_key=True,
            lr=0.02,
            seed=3,
            vvgpu=[[0, 1]],
            device="cpu",
        ),
        hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, data, eval_source=data),
        hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local),
    )
    sparse = [
        hugectr.DataReaderSparseParam(i.name, i.nnz_per_slot, i.is_fixed_length, len(i.fields))
        for i in inputs.sparse
    ]
    layer, kind = hugectr.DenseLayer, hugectr.Layer_t
    model.add(hugectr.Input(1, "label", len(inputs.dense), "dense", sparse))
    parts = ["dense"]
    for one in inputs.sparse:
        table = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
        model.add(hugectr.SparseEmbedding(table, 4, 4, "sum", f"{one.name}_v", one.name))
        width = 4 * len(one.fields)
        model.add(
            layer(kind.Reshape, [f"{one.name}_v"], [f"{one.name}_f"], leading_dim=width),
        )
        parts.append(f"{one.name}_f")
    model.add(layer(kind.Concat, parts, ["features"]))
    model.add(layer(kind.InnerProduct, ["features"], ["logit"], num_output=1))
    model.add(layer(kind.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    return model


def test_a_frame_with_text_and_gaps_trains(rng):
    frame = clicks(rng, ROWS)
    schema = Schema.infer(frame, label="clicked", fields=[ListField("tags", separator="|")])
    assert [field.kind for field in schema.fields] == [
        "categorical",
        "dense",
        "list",
        "timestamp",
        "ignored",
        "label",
    ]
    model = model_of(schema, schema.encode(frame))
    model.start_data_reading()
    losses = []
    for _ in range(200):
        model.train()
        losses.append(model.get_current_loss())
    base = frame["clicked"].mean()
    entropy = -base * np.log(base) - (1 - base) * np.log(1 - base)
    # What no feature could tell is the entropy of the clicks.
    assert np.mean(losses[-20:]) < 0.85 * entropy < np.mean(losses[:3]) + 0.2
    keys = schema.encode(frame).sparse["categories"][0]
    wanted = {schema.key_of("city", city) for city in ("Rome", "Oslo", None, "Bern", "Pune")}
    assert set(keys.tolist()) == wanted


def test_the_example_of_the_page_runs(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    code += "\nassert later.samples == 1 and later.dense.shape == (1, 2), later\n"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "categorical" in done.stdout
    assert re.search(r"Loss: \S+", done.stdout + done.stderr)
