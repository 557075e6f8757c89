# SPDX-License-Identifier: Apache-2.0
"""Model.report of real runs: which cards are there, and the numbers in them."""

import re

import numpy as np
import pytest

pytest.importorskip("jinja2")

from oracle.adult_model import adult_run
from oracle.generated_model import auto_is_the_cpu, data_folder, make_model

import hugectr

__all__ = ["auto_is_the_cpu", "data_folder", "make_model"]


@pytest.fixture(scope="module")
def adult():
    return adult_run(epochs=1)


def headings(page):
    return re.findall(r"<h2>(.*?)</h2>", page.read_text("utf-8"))


def test_a_run_with_a_schema(adult, tmp_path):
    model, test = adult
    before = model.session.network.dense_weights()
    page = model.report(tmp_path / "new" / "report.html", test, title="A title & more")
    assert headings(page) == [
        *("Training loss", "Evaluation: AUC", "Calibration", "Loss by field removed"),
        *("Time per stage", "Queues of the reader", "AUC per slice", "Embedding tables", "Model"),
    ]
    text = page.read_text("utf-8")
    assert "A title &amp; more" in text
    # Categories go by their names, and what is missing by that.
    assert re.search(r"<td>\w+ = (Private|Husband|White|Male|\(missing\))</td>", text)
    assert "capital_gain" in text
    last = model.evaluate()["AUC"]
    assert f"<dd>{last:.4f}" in text
    assert f"AUC {last:.4f}, log loss" in text  # computed anew from the predictions
    np.testing.assert_array_equal(before, model.session.network.dense_weights())
    assert model.stage_seconds()["dense"] > 0  # still there for who asks


def test_the_same_page_again(adult, tmp_path):
    model, _ = adult
    pages = [model.report(tmp_path / f"{i}.html", seed=3).read_text("utf-8") for i in range(2)]

    def without_times(page):
        return re.sub(r"[\d.]+ s<|<title>.*?</title>|style=\"width:[\d.]+%\"", "", page)

    part = "Loss by field removed"
    assert without_times(pages[0]).count(part) == 1
    cut = [page.split(part)[1].split("Time per stage")[0] for page in pages]
    assert cut[0] == cut[1]


def test_data_of_files(make_model, tmp_path):
    model = make_model(repeat_dataset=False)
    model.compile()
    model.fit(num_epochs=2, eval_interval="epoch", verbose=0)
    page = model.report(tmp_path / "report.html")
    assert "Calibration" in headings(page)
    assert "Loss by field removed" not in headings(page)
    assert "&lt;" not in "".join(headings(page))


def test_before_any_training(make_model, tmp_path):
    model = make_model(eval_source=False)
    model.compile()
    assert headings(model.report(tmp_path / "report.html")) == ["Embedding tables", "Model"]


def test_names_of_nobody(make_model, tmp_path):
    model = make_model()
    model.compile()
    with pytest.raises(hugectr.InvalidArgument, match="no schema"):
        model.report(tmp_path / "report.html", {"a": [1]})
