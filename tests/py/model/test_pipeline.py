# SPDX-License-Identifier: Apache-2.0
"""Who waits for whom: the sentence, the line in the log, and counters that no log line swallows."""

import pytest

from hugectr.model.pipeline import merge, pipeline_line, who_waits

QUIET = {
    "batches": 10,
    "acquired": 10,
    "bad_samples": 0,
    "rows_decoded": 640,
    "seconds": 10.0,
    "parse_seconds": 1.0,
    "credit_seconds": 0.0,
    "ready_seconds": 0.0,
    "acquire_seconds": 0.0,
    "ready_depth": 0.0,
    "credit_depth": 0.0,
    "ahead_depth": 0.0,
    "chunks": 6,
    "slots": 3,
}


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ({"ahead_depth": 2.5, "ready_depth": 4.0, "acquire_seconds": 9.0}, "reader waits for"),
        ({"acquire_seconds": 0.1}, "reader waits for the step"),
        ({"acquire_seconds": 4.0}, "step waits for the reader (40 % of the time): more workers"),
        ({"acquire_seconds": 4.0, "ready_depth": 3.0}, "step waits for the copy"),
        ({"acquired": 0}, "no batch was taken"),
    ],
)
def test_the_sentence_follows_the_queues(found, sentence):
    assert sentence in who_waits(QUIET | found)
    assert sentence in pipeline_line(QUIET | found)


def test_without_a_reader_there_is_nothing_to_wait_for():
    assert "nothing is read" in pipeline_line(QUIET | {"chunks": 0})


def test_counters_of_two_times_add_up_and_depths_are_means_over_batches():
    later = QUIET | {"batches": 30, "ready_depth": 4.0, "rows_decoded": 900, "seconds": 1.0}
    both = merge(QUIET, later)
    assert both["batches"] == 40
    assert both["ready_depth"] == pytest.approx(3.0)
    assert both["seconds"] == 11.0
    assert (both["rows_decoded"], both["chunks"], both["slots"]) == (900, 6, 3)
    assert merge({}, later) == later


def test_fit_shows_the_pipeline_on_request_and_the_counters_stay(make_model, capsys):
    model = make_model()
    model.compile()
    model.reader_metrics()
    model.fit(max_iter=21, display=5, eval_interval=0, snapshot=0, show_pipeline=True)
    lines = [line for line in capsys.readouterr().out.splitlines() if "Pipeline:" in line]
    assert len(lines) in (4, 5)  # at 5, 10, 15 and 20, and the end when the last line left a batch
    assert all(" waits for " in line for line in lines)
    metrics = model.reader_metrics()
    assert metrics["acquired"] >= 21
    assert 0 <= metrics["ahead_depth"] <= metrics["slots"] == 3
    assert 0 <= metrics["ready_depth"] + metrics["credit_depth"] <= metrics["chunks"]
    assert model.reader_metrics()["acquired"] == 0
    model.fit(max_iter=6, display=5, eval_interval=0, snapshot=0)
    assert "Pipeline:" not in capsys.readouterr().out
