# SPDX-License-Identifier: Apache-2.0
"""What notebooks show of a model and its parts: names are shown as they are, never read as HTML."""

from html.parser import HTMLParser

import pytest

import hugectr
from hugectr.base.html_table import html_table
from hugectr.model.fit_progress import NotebookBar, in_notebook

EVIL = '<script>alert(1)</script>"&\x1b'


class Page(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.tags, self.texts = set(), []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)

    def handle_data(self, data):
        self.texts.append(data)


def test_a_model_before_and_after_compile(make_model):
    model = make_model(model_name=EVIL)
    before = Page(model._repr_html_())
    assert any("not compiled yet" in text for text in before.texts)
    assert {"vectors", "Concat", "BinaryCrossEntropyLoss"} <= set(before.texts)
    model.compile()
    model.train()
    after = Page(model._repr_html_())
    for page in (before, after):
        assert "script" not in page.tags
        assert any("<script>" in text for text in page.texts)
    assert "batch x 16" in after.texts
    assert f"{model.table_stats()[0]['rows']:,}" in after.texts
    assert any("step 1" in text for text in after.texts)


def test_a_model_for_prediction(make_model, tmp_path):
    model = make_model(model_name=EVIL)
    model.compile()
    model.train()
    loaded = hugectr.load(model.save(tmp_path / "run"))
    rows = model.table_stats()[0]["rows"]
    page = Page(loaded._repr_html_())
    assert "script" not in page.tags
    assert {"vectors", "Concat", f"{rows:,}"} <= set(page.texts)
    assert any("step 1" in text for text in page.texts)
    assert f"vectors ({rows:,} rows of 8)" in repr(loaded)


def test_settings_that_were_chosen_come_first():
    page = Page(hugectr.CreateSolver(model_name=EVIL, lr=0.125, device="cpu")._repr_html_())
    assert "script" not in page.tags
    assert page.texts.index("0.125") < page.texts.index("end_lr")
    assert not any("\x1b" in text for text in page.texts)


def test_tables(make_model):
    model = make_model()
    model.compile()
    model.train()
    table = Page(model.embeddings[0]._repr_html_())
    assert {"by slot", "mean", "32,768"} <= set(table.texts)
    rows = model.table("vectors")
    shown = Page(rows._repr_html_())
    assert f"{len(rows)} x 8" in shown.texts


def test_long_tables_are_cut():
    page = Page(html_table("t", ["a"], [[i] for i in range(500)]))
    assert "and 300 more" in page.texts
    assert "499" not in page.texts


class Handle:
    def __init__(self, shown):
        self.shown = shown

    def update(self, content):
        self.shown.append(content)


def test_the_bar_of_a_notebook(make_model, monkeypatch):
    shown = []

    def display(content, display_id):
        assert display_id
        shown.append(content)
        return Handle(shown)

    bar = NotebookBar(display, str, 3)
    for i in range(3):
        bar.advance(f"{EVIL} {i}")
    bar.evaluation(3, {"AUC": 0.75})
    bar.close()
    assert "<progress" in shown[0]
    assert all("script" not in Page(content).tags for content in shown)
    assert "<progress" not in shown[-1]
    assert {"trained 3 steps", "AUC", "0.7500"} <= set(Page(shown[-1]).texts)
    assert not in_notebook()


@pytest.mark.parametrize("total", [None, 0])
def test_a_bar_without_an_end(total):
    shown = []
    NotebookBar(lambda content, display_id: shown.append(content) or Handle(shown), str, total)
    assert "<progress" not in shown[0]


def test_a_history_has_curves(make_model):
    model = make_model()
    model.compile()
    history = model.fit(max_iter=20, eval_interval=8, verbose=0)
    page = Page(history._repr_html_())
    assert page.tags >= {"svg", "polyline", "style"}
    assert f"AUC {history.evaluations[-1]['AUC']:.4g}" in page.texts
    assert "step 20" in page.texts
    assert "svg" not in Page(hugectr.callbacks.History()._repr_html_()).tags
