# SPDX-License-Identifier: Apache-2.0
"""Model.fit: iteration numbering, the order of events, and the text of the log."""

import contextlib
import math
import re

import pytest

import hugectr
from hugectr.base.no_effect import forget_warnings

PREFIX = re.compile(r"\[HCTR\]\[\d\d:\d\d:\d\d\]\[INFO\]\[RK0\]\[main\]: ")


def lines_of(capsys):
    out = capsys.readouterr().out.splitlines()
    assert all(PREFIX.match(line) for line in out)
    return [PREFIX.sub("", line) for line in out]


def test_iteration_mode(make_model, capsys, tmp_path):
    model = make_model(
        metrics_spec={hugectr.MetricsType.AUC: 1.0, hugectr.MetricsType.AverageLoss: 0}
    )
    model.compile()
    compiled = lines_of(capsys)
    assert "Global seed is 3" in compiled
    assert "num of DataReader workers: 2" in compiled
    assert "max_vocabulary_size_per_gpu_=32768 (vectors)" in compiled
    prefix = str(tmp_path / "snap" / "m")
    model.fit(max_iter=23, display=5, eval_interval=10, snapshot=10, snapshot_prefix=prefix)
    lines = lines_of(capsys)
    assert lines[:5] == [
        "Use non-epoch mode with number of iterations: 23",
        "Training batchsize: 64, evaluation batchsize: 64",
        "Evaluation interval: 10, snapshot interval: 10",
        "Sparse embedding trainable: 1, dense network trainable: 1",
        "Use mixed precision: 0, scaler: 1.000000, use cuda graph: 1",
    ]
    events = [
        re.match(r"(Iter: \d+|Evaluation, \w+|Eval Time|Finish|Stages)", line) for line in lines[9:]
    ]
    assert [event and event[0] for event in events] == [
        *("Iter: 5", "Iter: 10", "Evaluation, AUC", "Evaluation, AverageLoss", "Eval Time"),
        *("Iter: 15", "Iter: 20", "Evaluation, AUC", "Evaluation, AverageLoss", "Eval Time"),
        *("Stages", "Finish"),
    ]
    number = r"[\d.e-]+"
    text = "\n".join(lines[9:])
    assert re.findall(rf"Iter: (\d+) Time\(5 iters\): {number}s Loss: {number} lr:0.01", text) == [
        "5",
        "10",
        "15",
        "20",
    ]
    assert (
        len(re.findall(rf"Evaluation, AUC: {number}\nEvaluation, AverageLoss: {number}\n", text))
        == 2
    )
    assert len(re.findall(rf"Eval Time for 2 iters: {number}s", text)) == 2
    assert re.fullmatch(r"Finish 23 iterations with batchsize: 64 in \d+\.\d\ds\.", lines[-1])
    stages = re.findall(rf"(\w+) ({number})", lines[-2].removeprefix("Stages, ms a step: "))
    assert [name for name, _ in stages] == [
        *("input", "embedding_forward", "dense", "exchange_update", "embedding_update"),
        *("idle", "plan", "wait_for_plan"),
    ]
    assert all(float(ms) >= 0 for _, ms in stages)
    assert float(dict(stages)["dense"]) > 0
    # What was logged is still there for who asks afterwards.
    assert model.stage_seconds()["dense"] >= 1e-3 * 23 * (float(dict(stages)["dense"]) - 0.001)
    assert model.stage_seconds()["dense"] == 0
    saved = sorted(path.name for path in (tmp_path / "snap").iterdir())
    assert saved == [
        "m0_opt_sparse_10.model",
        "m0_opt_sparse_20.model",
        "m0_sparse_10.model",
        "m0_sparse_20.model",
        "m_dense_10.model",
        "m_dense_20.model",
        "m_opt_dense_10.model",
        "m_opt_dense_20.model",
    ]
    assert model.session.step() == 23


def test_the_schedule_drives_the_steps(make_model, capsys):
    model = make_model(lr=0.1, warmup_steps=10, decay_start=0)
    model.compile()
    capsys.readouterr()
    model.fit(max_iter=13, display=3, eval_interval=0, snapshot=0)
    rates = re.findall(r"lr:(\S+)", capsys.readouterr().out)
    # Iteration it uses the rate of step it + 1.
    assert [float(rate) for rate in rates] == pytest.approx([0.04, 0.07, 0.1, 0.1])


def test_epoch_mode(make_model, capsys):
    model = make_model(repeat_dataset=False)
    model.compile()
    capsys.readouterr()
    model.fit(num_epochs=3, display=2, eval_interval=4, snapshot=0)
    lines = lines_of(capsys)
    assert lines[0] == "Use epoch mode with number of epochs: 3"
    epochs = [line for line in lines if line.startswith("-----")]
    assert [re.sub("-", "", line) for line in epochs] == ["Epoch 0", "Epoch 1", "Epoch 2"]
    shown = [line.split()[1] for line in lines if line.startswith("Iter:")]
    assert shown == ["2", "4", "6", "8", "10"]
    assert sum(line.startswith("Eval Time for 2 iters") for line in lines) == 2
    assert re.fullmatch(
        r"Finish 3 epochs 12 global iterations with batchsize: 64 in \d+\.\d\ds\.", lines[-1]
    )


SCHEDULE = {"lr": 0.1, "warmup_steps": 5, "decay_start": 7, "decay_steps": 9, "decay_power": 1.0}
STEPS = 12  # three epochs of four


def scheduled(step):
    """The schedule's formula; steps count from 1."""
    if step <= 5:
        return 0.1 * step / 5
    if step <= 7:
        return 0.1
    return max(0.0, 0.1 * (16 - step) / 9)


def rates_used(model):
    """A list that receives the rate of every step that trains."""
    used = []
    train = model.session.train

    class Watched:
        def __getattr__(self, name):
            return getattr(session, name)

        def train(self):
            rate = session.learning_rate_state()["lr"]
            trained = train()
            if trained:
                used.append(rate)
            return trained

    session = model.session
    model._graph._session = Watched()
    return used


@pytest.mark.parametrize("repeat", [True, False])
def test_every_step_has_the_rate_of_its_number(make_model, repeat):
    model = make_model(repeat_dataset=repeat, **SCHEDULE)
    model.compile()
    used = rates_used(model)
    model.fit(num_epochs=3, max_iter=STEPS, display=0, eval_interval=0, snapshot=0)
    assert used == pytest.approx([scheduled(step) for step in range(1, STEPS + 1)])
    assert model.session.learning_rate_state()["step"] == STEPS


@pytest.mark.parametrize("stop", [3, 4, 6, 8])
@pytest.mark.parametrize("repeat", [True, False])
def test_a_resumed_run_goes_on_with_the_next_rate(make_model, tmp_path, repeat, stop):
    """In the middle of an epoch and at its end."""

    class Interrupted(Exception):
        pass

    def run(interrupt):
        model = make_model(repeat_dataset=repeat, **SCHEDULE)
        model.compile()
        used = rates_used(model)
        save = model.save

        def save_and_stop(*arguments, **keywords):
            path = save(*arguments, **keywords)
            if interrupt:
                raise Interrupted
            return path

        model.save = save_and_stop
        with contextlib.suppress(Interrupted):
            model.fit(
                num_epochs=3,
                max_iter=STEPS,
                display=0,
                eval_interval=0,
                snapshot=0,
                checkpoint_dir=tmp_path,
                checkpoint_interval=stop if interrupt else 0,
                background_save=False,
                resume=not interrupt,
            )
        return used

    assert len(run(True)) == stop
    assert run(False) == pytest.approx([scheduled(step) for step in range(stop + 1, STEPS + 1)])


def test_target_ends_the_training(make_model, capsys):
    model = make_model(metrics_spec={hugectr.MetricsType.AUC: 0.01})
    model.compile()
    capsys.readouterr()
    model.fit(max_iter=100, display=0, eval_interval=10, snapshot=0)
    lines = lines_of(capsys)
    assert re.fullmatch(
        r"Hit target accuracy AUC \d\.\d{6} at 10 / 100 iterations with batchsize 64 in "
        r"\d+\.\d\ds\. Average speed \d+\.\d{6} records/s\.",
        lines[-1],
    )
    assert model.session.step() == 11


def test_target_in_epoch_mode(make_model, capsys):
    model = make_model(metrics_spec={hugectr.MetricsType.AUC: 0.01}, repeat_dataset=False)
    model.compile()
    model.fit(num_epochs=5, display=0, eval_interval=6, snapshot=0)
    last = lines_of(capsys)[-1]
    assert re.search(r"at 1 / 5 epochs 6 global iterations with batchsize 64 in ", last)


def test_a_loss_that_is_no_number_ends_the_training(make_model):
    model = make_model()
    model.compile()
    weights = model.session.network.dense_weights()
    weights[:] = math.nan
    model.session.network.set_dense_weights(weights)
    with pytest.raises(RuntimeError, match="Loss cannot converge"):
        model.fit(max_iter=10, display=2, eval_interval=0, snapshot=0)


def test_an_epoch_without_a_whole_batch_is_told(make_model, capsys):
    model = make_model(repeat_dataset=False, drop_incomplete_batch=True, batchsize=4096)
    model.compile()
    assert model.fit(num_epochs=2, snapshot=0).trained_steps == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "trained nothing" in line]
    assert len(told) == 2
    assert "epoch 1" in told[1]
    assert "batchsize=4096" in told[1]


def test_without_evaluation_data(make_model, capsys):
    model = make_model(eval_source=False)
    model.compile()
    model.fit(max_iter=12, display=0, eval_interval=5, snapshot=0)
    text = capsys.readouterr().out
    assert "No evaluation: the reader has no eval_source" in text
    assert "Eval Time" not in text
    assert model.evaluate() == {}


def test_mixed_precision_on_the_cpu_warns_once(make_model, capsys):
    make_model(use_mixed_precision=True, scaler=1024).compile()
    assert capsys.readouterr().err.count("use_mixed_precision") == 1


@pytest.mark.parametrize(
    ("arguments", "word"),
    [({"max_iter": 0}, "max_iter"), ({"display": -1}, "display"), ({"snapshot": "x"}, "snapshot")],
)
def test_bad_arguments(make_model, arguments, word):
    model = make_model()
    model.compile()
    with pytest.raises(hugectr.InvalidArgument, match=f"fit: {word}"):
        model.fit(**arguments)


@pytest.mark.parametrize(
    ("repeat", "given", "said"),
    [
        (True, {"num_epochs": 2, "max_iter": 3}, "fit: num_epochs=2 .*max_iter steps are trained"),
        (False, {"max_iter": 3}, "fit: max_iter=3 .*num_epochs says how long"),
        (False, {"num_epochs": 1}, ""),
        (True, {"max_iter": 3}, ""),
    ],
)
@pytest.mark.parametrize("verbose", [0, 2])
def test_a_length_of_the_other_mode_is_told(make_model, repeat, given, said, verbose, capsys):
    forget_warnings()
    model = make_model(repeat_dataset=repeat)
    model.compile()
    model.fit(**given, eval_interval=0, snapshot=0, verbose=verbose)
    warned = [line for line in capsys.readouterr().err.splitlines() if "no effect" in line]
    assert len(warned) == bool(said)
    assert all(re.search(said, line) for line in warned)
