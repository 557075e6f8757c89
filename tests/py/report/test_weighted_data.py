# SPDX-License-Identifier: Apache-2.0
"""Reports of weighted data: what is said of predictions counts by weight, as the metrics do."""

import re

import numpy as np
import pytest

pytest.importorskip("jinja2")

import hugectr
from hugectr.callbacks import Report
from hugectr.data import CategoricalField, DenseField, LabelField, Schema, WeightField

DRAW = np.random.default_rng(0)
ROWS = 3000


def test_calibration_metrics_and_slices_are_those_of_the_weights(tmp_path):
    a = DRAW.normal(size=ROWS)
    label = (DRAW.random(ROWS) < 1 / (1 + np.exp(-2 * a))).astype(int)
    # Negatives stand for few; rows of weight 0 would turn all around.
    weight = np.where(label == 1, 1.0, 0.05)
    frame = {"c": DRAW.choice(list("xyz"), ROWS), "a": a, "w": weight, "y": label}
    wild = {"c": np.full(900, "x"), "a": np.full(900, 3.0), "w": np.zeros(900), "y": np.zeros(900)}
    frame = {name: np.concatenate([values, wild[name]]) for name, values in frame.items()}
    fields = [CategoricalField("c"), DenseField("a"), WeightField("w"), LabelField("y")]
    model = hugectr.CTRClassifier(schema=Schema(fields), random_state=1, epochs=20)
    page = tmp_path / "report.html"
    model.fit(frame, "y", callbacks=Report(page, frame))
    text = page.read_text("utf-8")
    wanted = model.evaluate(frame, "y")
    line = re.search(
        r"Predictions of 3,000 evaluation samples, by their weights: AUC ([\d.]+), log loss "
        r"([\d.]+), ([\d.]+)% positive",
        text,
    )
    assert line is not None
    assert float(line[1]) == pytest.approx(wanted["AUC"], abs=1e-3)
    assert float(line[2]) == pytest.approx(wanted["LogLoss"], abs=1e-3)
    assert float(line[3]) == pytest.approx(100 * weight @ label / weight.sum(), abs=0.01)
    error = re.search(r"Calibration error</dt>\s*<dd>([\d.]+)", text)
    assert error is not None
    assert float(error[1]) < 0.05
    cells = re.findall(r"<td>c = x</td>" + r"\s*<td[^>]*>([\d.,]+)</td>" * 4, text)
    chosen = frame["c"] == "x"
    positive = np.average(frame["y"][chosen], weights=frame["w"][chosen])
    assert len(cells) == 1
    assert float(cells[0][3]) == pytest.approx(positive, abs=1e-3)
