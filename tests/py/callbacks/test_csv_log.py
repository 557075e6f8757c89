# SPDX-License-Identifier: Apache-2.0
"""CSVLog: what is in the file, and what a resumed run makes of it."""

import csv

import pytest

from hugectr.callbacks import Callback, CSVLog


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_lines(make_model, tmp_path):
    model = make_model()
    model.compile()
    path = tmp_path / "new" / "log.csv"
    history = model.fit(max_iter=9, eval_interval=4, display=4, callbacks=[CSVLog(path, every=4)])
    rows = rows_of(path)
    assert list(rows[0]) == ["step", "epoch", "loss", "lr", "AUC"]
    assert [(row["step"], bool(row["loss"]), bool(row["AUC"])) for row in rows] == [
        *(("4", True, False), ("5", False, True), ("8", True, False), ("9", False, True)),
    ]
    assert [float(row["AUC"]) for row in rows if row["AUC"]] == [
        found["AUC"] for found in history.evaluations
    ]


def test_a_resumed_run_takes_out_what_it_trains_again(make_model, tmp_path):
    class Stop(Callback):
        def on_step(self, step, logs):
            if step == 6:
                raise KeyboardInterrupt

    def run(*callbacks):
        model = make_model()
        model.compile()
        model.fit(
            max_iter=8,
            eval_interval=0,
            callbacks=[CSVLog(tmp_path / "log.csv", every=1), *callbacks],
            checkpoint_dir=tmp_path / "run",
            checkpoint_interval=3,
            resume=True,
        )

    with pytest.raises(KeyboardInterrupt):
        run(Stop())
    assert [row["step"] for row in rows_of(tmp_path / "log.csv")] == list("123456")
    run()
    assert [row["step"] for row in rows_of(tmp_path / "log.csv")] == list("12345678")
