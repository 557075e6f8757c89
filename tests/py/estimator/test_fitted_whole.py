# SPDX-License-Identifier: Apache-2.0
"""An estimator is of one fit, whatever interrupts it and whoever saves where it is loaded."""

import numpy as np
import pytest

import hugectr
from hugectr.base import replaced as replacing
from hugectr.estimator import fitted

CITY = np.arange(400) % 7
FRAME = {"city": CITY.tolist()}


def fit(names, *, of=None):
    """A classifier that says the first name of even cities, and the second one of odd ones."""
    one = of or hugectr.CTRClassifier(random_state=1, epochs=30, early_stopping=False)
    return one.fit(FRAME, np.array(names)[CITY % 2])


def said(classifier):
    return classifier.predict({"city": [2, 3]}).tolist()


@pytest.mark.parametrize("where", ["_forget_names", "_keep_meaning"])
def test_an_interrupt_at_the_end_of_a_fit_leaves_the_one_before(monkeypatch, where):
    classifier = fit(["no", "yes"])
    assert said(classifier) == ["no", "yes"]

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(hugectr.CTRClassifier, where, interrupted)
        with pytest.raises(KeyboardInterrupt):
            fit(["up", "down"], of=classifier)
    assert said(classifier) == ["no", "yes"]
    assert said(fit(["up", "down"], of=classifier)) == ["up", "down"]


@pytest.fixture
def two(tmp_path):
    """Classifiers of unlike names, the first of which is saved at the path."""
    first, second = fit(["no", "yes"]), fit(["good", "bad"])
    first.save(tmp_path / "saved")
    return tmp_path / "saved", first, second


@pytest.mark.parametrize("where", ["check_kinds", "load", "KeptFolder"])
def test_a_folder_that_is_replaced_while_it_is_loaded_is_loaded_whole(monkeypatch, two, where):
    path, _, second = two
    whole = getattr(fitted, where)

    def replaced(*arguments, **settings):
        monkeypatch.setattr(fitted, where, whole)
        second.save(path)
        return whole(*arguments, **settings)

    monkeypatch.setattr(fitted, where, replaced)
    loaded = hugectr.CTRClassifier.load(path)
    assert said(loaded) == ["good", "bad"]
    loaded.save(path.with_name("again"))
    assert said(hugectr.CTRClassifier.load(path.with_name("again"))) == ["good", "bad"]


def test_a_folder_that_is_replaced_all_the_time_is_named(monkeypatch, two):
    path, first, second = two
    whole, count = fitted.check_kinds, 0

    def replaced(folder):
        nonlocal count
        count += 1
        (first if count % 2 else second).save(path)
        return whole(folder)

    monkeypatch.setattr(fitted, "check_kinds", replaced)
    with pytest.raises(hugectr.DataError, match="was replaced 10 times"):
        hugectr.CTRClassifier.load(path)
    assert count == replacing.TRIES
