# SPDX-License-Identifier: Apache-2.0
"""Fits in several threads: the models of fits one after the other, and the log as it was."""

import threading

import numpy as np

import hugectr
from hugectr.base import log
from hugectr.callbacks import Callback

FRAME = {"city": ["Rome", "Oslo", "Bern", "Oslo"] * 20, "age": list(range(80))}
LABEL = [1, 0, 0, 1] * 20


class Meeting(Callback):
    """Waits in the middle of a fit until another fit is there, or has ended."""

    def __init__(self, waits_for: threading.Event, tells: threading.Event) -> None:
        super().__init__()
        self.waits_for, self.tells = waits_for, tells

    def on_fit_begin(self, logs):
        self.tells.set()
        assert self.waits_for.wait(60)


def fitted(seed, callbacks=()):
    model = hugectr.CTRClassifier(model="lr", random_state=seed, epochs=1)
    return model.fit(FRAME, LABEL, callbacks=callbacks).predict_proba(FRAME)


def test_the_first_in_is_the_first_out():
    alone, before = [fitted(seed) for seed in (1, 2)], log.level()
    assert before < log.WARNING
    first_in, second_in, first_out = (threading.Event() for _ in range(3))
    found = {}

    def first():
        found[0] = fitted(1, [Meeting(second_in, first_in)])
        first_out.set()

    def second():
        assert first_in.wait(60)
        found[1] = fitted(2, [Meeting(first_out, second_in)])

    threads = [threading.Thread(target=one) for one in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert log.level() == before
    for place in (0, 1):
        np.testing.assert_array_equal(found[place], alone[place])
