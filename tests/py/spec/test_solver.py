# SPDX-License-Identifier: Apache-2.0
"""CreateSolver, CreateOptimizer and solver_parser_helper: defaults, checks, read-only."""

import dataclasses
import inspect

import pytest

import hugectr
from hugectr.base.no_effect import forget_warnings


def test_defaults_are_those_of_the_original():
    solver = hugectr.CreateSolver()
    assert (solver.batchsize, solver.batchsize_eval, solver.max_eval_batches) == (2048, 2048, 100)
    assert (solver.lr, solver.warmup_steps, solver.decay_power) == (0.001, 1, 2.0)
    assert solver.vvgpu == [[0]]
    assert solver.repeat_dataset is True
    assert solver.metrics_spec == {hugectr.MetricsType.AUC: 1.0}
    assert solver.lr_policy is hugectr.LrPolicy_t.fixed


def test_solver_is_read_only():
    with pytest.raises(dataclasses.FrozenInstanceError):
        hugectr.CreateSolver().batchsize = 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"batchsize": 0}, ["batchsize", "found 0", "from 1 to 2147483647"]),
        ({"batchsize": 10, "vvgpu": [[0, 1, 2]]}, ["batchsize", "found 10", "multiple of 3"]),
        (
            {"batchsize_eval": 9, "vvgpu": [[0], [0]]},
            ["batchsize_eval", "found 9", "multiple of 2"],
        ),
        ({"batchsize": "64"}, ["batchsize", "'64'", "integer"]),
        ({"batchsize": True}, ["batchsize", "True", "integer"]),
        ({"lr": -1}, ["lr", "-1", ">= 0"]),
        ({"lr": float("nan")}, ["lr", "nan", "number"]),
        ({"warmup_steps": 0}, ["warmup_steps", "found 0", ">= 1"]),
        ({"decay_power": 0.5}, ["decay_power", "0.5", ">= 1"]),
        ({"vvgpu": []}, ["vvgpu", "[]", "[[0, 1]]"]),
        ({"vvgpu": [0, 1]}, ["vvgpu[0]", "found 0", "device ids"]),
        ({"vvgpu": [[0, 0]]}, ["vvgpu[0]", "[0, 0]", "differ"]),
        ({"seed": -1}, ["seed", "-1", ">= 0|from 0"]),
        ({"metrics_spec": []}, ["metrics_spec", "[]", "MetricsType.AUC"]),
        (
            {"metrics_spec": {"HitRate": 0.8}},
            ["metrics_spec", "HitRate", "MetricsType.AverageLoss"],
        ),
        ({"use_mixed_precision": True, "scaler": 0}, ["scaler", "> 0"]),
        (
            {"use_mixed_precision": True, "scaler": 1024, "enable_tf32_compute": True},
            ["use_mixed_precision", "enable_tf32_compute", "at most one"],
        ),
        (
            {"use_mixed_precision": True, "mixed_precision_type": "float8", "scaler": 1024},
            ["mixed_precision_type", "'float8'", "'bfloat16'"],
        ),
        (
            {
                "use_mixed_precision": True,
                "mixed_precision_type": "bfloat16",
                "dynamic_loss_scaling": True,
            },
            ["dynamic_loss_scaling", "bfloat16, which needs no scaling"],
        ),
        ({"dynamic_loss_scaling": "yes"}, ["dynamic_loss_scaling", "'yes'"]),
        ({"device": "gpu"}, ["device", "'gpu'", "'cuda'"]),
        ({"lr_policy": "fixed"}, ["lr_policy", "'fixed'", "LrPolicy_t.fixed"]),
    ],
)
def test_a_bad_argument_is_named(arguments, words):
    with pytest.raises(hugectr.InvalidArgument) as caught:
        hugectr.CreateSolver(**arguments)
    assert isinstance(caught.value, ValueError)
    for word in words:
        assert any(part in str(caught.value) for part in word.split("|")), str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "dtype"),
    [
        ({}, "float32"),
        ({"mixed_precision_type": "bfloat16"}, "float32"),
        ({"use_mixed_precision": True, "scaler": 256}, "float16"),
        ({"use_mixed_precision": True, "dynamic_loss_scaling": True}, "float16"),
        ({"use_mixed_precision": True, "mixed_precision_type": "bfloat16"}, "bfloat16"),
    ],
)
def test_mixed_precision_names_the_type_the_network_computes_in(arguments, dtype):
    solver = hugectr.CreateSolver(**arguments)
    assert solver.compute_dtype == dtype
    assert solver.to_spec()["compute_dtype"] == dtype


def test_a_switch_without_effect_warns_once(capsys):
    forget_warnings()
    for _ in range(2):
        hugectr.CreateSolver(async_mlp_wgrad=True, use_cuda_graph=False, is_dlrm=True)
        hugectr.CreateSolver(is_dlrm=False, perf_logging=False)
    lines = [line for line in capsys.readouterr().err.splitlines() if "has no effect" in line]
    assert [line.partition("main]: ")[2].split(" is ")[0] for line in lines] == [
        "CreateSolver: async_mlp_wgrad=True",
        "CreateSolver: is_dlrm=True",
    ]
    assert "[WARNING][RK0]" in lines[0]


def test_scalers_of_any_version():
    for scaler in (1, 128, 1024, 16348):
        solver = hugectr.CreateSolver(use_mixed_precision=True, scaler=scaler)
        assert solver.loss_scale == scaler


def test_training_callbacks_are_objects():
    class Mine(hugectr.TrainingCallback):
        pass

    one = Mine()
    assert hugectr.CreateSolver(training_callbacks=[one]).training_callbacks == (one,)
    for wrong in ([Mine], Mine, [print], "x"):
        with pytest.raises(hugectr.InvalidArgument, match="training_callbacks"):
            hugectr.CreateSolver(training_callbacks=wrong)


def test_optimizer_of_3_0_carries_a_schedule(make_model):
    optimizer = hugectr.optimizer.CreateOptimizer(
        optimizer_type=hugectr.Optimizer_t.SGD,
        use_mixed_precision=False,
        learning_rate=0.5,
        warmup_steps=5,
    )
    model = make_model()
    again = hugectr.Model(model.solver, model.reader_params, optimizer)
    assert (again.solver.lr, again.solver.warmup_steps) == (0.5, 5)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [({"beta1": 2}, "beta1"), ({"optimizer_type": "Adam"}, "Optimizer_t.Adam")],
)
def test_a_bad_optimizer_is_named(arguments, word):
    with pytest.raises(hugectr.InvalidArgument, match=word):
        hugectr.CreateOptimizer(**arguments)


def test_helper_of_the_older_session_remembers_what_was_given():
    solver = hugectr.solver_parser_helper(0, 300, batchsize=64, vvgpu=[[0, 1]])
    assert set(solver.origin) == {"seed", "max_eval_batches", "batchsize", "vvgpu"}
    assert solver.with_run_length().max_iter == 10000
    assert hugectr.solver_parser_helper(repeat_dataset=False).with_run_length().num_epochs == 1
    assert "batchsize" in inspect.signature(hugectr.solver_parser_helper).parameters


def test_helper_takes_the_oversubscriber():
    assert hugectr.solver_parser_helper(use_model_oversubscriber=True).use_model_oversubscriber
    with pytest.raises(hugectr.InvalidArgument, match="use_model_oversubscriber"):
        hugectr.solver_parser_helper(use_model_oversubscriber="yes")


def test_schedule_of_a_scheduler():
    scheduler = hugectr.LearningRateScheduler(1.0, 4, 6, 4, 2.0, 0.1)
    rates = [scheduler.get_next() for _ in range(12)]
    assert rates[:6] == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0, 1.0])
    assert rates[6:] == pytest.approx([0.75**2, 0.5**2, 0.1, 0.1, 0.1, 0.1])
