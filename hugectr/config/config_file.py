# SPDX-License-Identifier: Apache-2.0
"""Full JSON configs: ``solver``, ``optimizer``, ``layers``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hugectr.base.errors import rejected
from hugectr.base.no_effect import warn_no_effect
from hugectr.config.embeddings import parse_memory
from hugectr.config.json_reader import JsonObject, read_json
from hugectr.config.layers import ParsedLayers, parse_layers
from hugectr.config.optimizer import parse_optimizer
from hugectr.spec.enums import DeviceLayout, MetricsType
from hugectr.spec.metrics import parse_metric
from hugectr.spec.optimizer import LearningRateScheduler, OptParamsPy, Schedule
from hugectr.spec.precision import MIXED_PRECISION_TYPES
from hugectr.spec.session_solver import SessionSolver
from hugectr.spec.solver import WITHOUT_EFFECT as OF_CREATE_SOLVER, check_vvgpu
from hugectr.spec.wire import WIRES

_WITHOUT_EFFECT = OF_CREATE_SOLVER | {
    "enable_overlap": OF_CREATE_SOLVER["overlap_ar_a2a"],
    "holistic_cuda_graph": "cuda_graph captures the dense part of a step",
    "export_predictions_prefix": "Session.evaluation takes the names of the files",
}


@dataclass
class Config:
    """A config file, parsed."""

    solver: SessionSolver
    optimizer: OptParamsPy
    layers: ParsedLayers
    model_name: str


def _vvgpu(solver: JsonObject) -> list[list[int]]:
    value = solver.raw("gpu")
    if isinstance(value, list) and value and not any(isinstance(row, list) for row in value):
        value = [value]
    return check_vvgpu(solver.where("gpu"), value)


def _files(solver: JsonObject, key: str) -> list[str]:
    value = solver.raw(key)
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise rejected(solver.where(key), value, "a string or a list of strings")
    return names


def _metrics(solver: JsonObject) -> dict[MetricsType, float]:
    value = solver.raw("eval_metrics")
    if not isinstance(value, list):
        raise rejected(solver.where("eval_metrics"), value, 'a list such as ["AUC:0.8025"]')
    return dict(
        parse_metric(f"{solver.where('eval_metrics')}[{i}]", text) for i, text in enumerate(value)
    )


def _only_one(solver: JsonObject, first: str, second: str) -> None:
    if first in solver and second in solver:
        raise rejected(solver.where(second), solver.raw(second), f"only one of it and {first}")


def parse_solver(solver: JsonObject) -> SessionSolver:
    """Read a ``solver`` object; ``origin`` of the result says which settings it gives."""
    given: dict[str, Any] = {}
    origin: dict[str, str] = {}

    def give(name: str, key: str, value: Any) -> None:
        given[name] = value
        origin[name] = solver.where(key)

    solver.choice("lr_policy", ("fixed",), "fixed")
    _only_one(solver, "max_iter", "num_epochs")
    _only_one(solver, "max_eval_batches", "max_eval_samples")
    for key, minimum in (
        ("seed", 0),
        ("batchsize", 1),
        ("batchsize_eval", 1),
        ("max_eval_batches", 0),
        ("display", 0),
        ("snapshot", 0),
        ("eval_interval", 0),
        ("max_iter", 1),
        ("num_epochs", 1),
        ("num_iterations_statistics", 1),
    ):
        if key in solver:
            give(key, key, solver.integer(key, minimum=minimum))
    if "max_iter" in given or "num_epochs" in given:
        key = "max_iter" if "max_iter" in given else "num_epochs"
        give("repeat_dataset", key, key == "max_iter")
    if "batchsize" in given and "batchsize_eval" not in given:
        give("batchsize_eval", "batchsize", given["batchsize"])
    if "max_eval_samples" in solver:
        samples = solver.integer("max_eval_samples", minimum=0)
        size = given.get("batchsize_eval", SessionSolver.batchsize_eval)
        give("max_eval_batches", "max_eval_samples", -(-samples // size))
    if "eval_batches" in solver:  # of v2
        _only_one(solver, "max_eval_batches", "eval_batches")
        batches = solver.integer("eval_batches", minimum=0)
        give("max_eval_batches", "eval_batches", batches)
    if "gpu" in solver:
        give("vvgpu", "gpu", _vvgpu(solver))
    for name, key in (
        ("snapshot_prefix", "snapshot_prefix"),
        ("model_file", "dense_model_file"),
        ("dense_opt_states_file", "dense_opt_states_file"),
        ("plan", "plan"),
    ):
        if key in solver:
            give(name, key, solver.text(key))
    for name, key in (
        ("embedding_files", "sparse_model_file"),
        ("sparse_opt_states_file", "sparse_opt_states_file"),
    ):
        if key in solver:
            give(name, key, _files(solver, key))
    _precision(solver, give)
    if "wire" in solver:
        give("wire", "wire", solver.choice("wire", WIRES))
    if "micro_batches" in solver:
        give("micro_batches", "micro_batches", solver.integer("micro_batches", minimum=1))
    if "memory" in solver:
        give("memory", "memory", parse_memory(solver))
    if "device_layout" in solver:
        layouts = {layout.name: layout for layout in DeviceLayout}
        give("device_layout", "device_layout", layouts[solver.choice("device_layout", layouts)])
    if "eval_metrics" in solver:
        give("metrics_spec", "eval_metrics", _metrics(solver))
    if "input_key_type" in solver:
        wide = solver.choice("input_key_type", ("I32", "I64")) == "I64"
        give("i64_input_key", "input_key_type", wide)
    for name, key in (
        ("use_algorithm_search", "algorithm_search"),
        ("use_cuda_graph", "cuda_graph"),
    ):
        if key in solver:
            give(name, key, solver.boolean(key))
    for key, why in _WITHOUT_EFFECT.items():
        if key in solver and solver.raw(key):
            warn_no_effect("solver of the config", key, why)
    solver.finish()
    return SessionSolver(**given, origin=origin)


def _precision(solver: JsonObject, give: Any) -> None:
    if "mixed_precision" in solver:
        scaler = solver.number("mixed_precision")
        if scaler <= 0:
            raise rejected(
                solver.where("mixed_precision"),
                scaler,
                "a number > 0, such as 1024; none (leave the key out) is float32",
            )
        give("use_mixed_precision", "mixed_precision", True)
        give("scaler", "mixed_precision", scaler)
    if "mixed_precision_type" in solver:
        kind = solver.choice("mixed_precision_type", MIXED_PRECISION_TYPES)
        give("mixed_precision_type", "mixed_precision_type", kind)
        give("use_mixed_precision", "mixed_precision_type", True)
    if "dynamic_loss_scaling" in solver:
        dynamic = solver.boolean("dynamic_loss_scaling")
        give("dynamic_loss_scaling", "dynamic_loss_scaling", dynamic)
    if "enable_tf32_compute" in solver:
        tf32 = solver.boolean("enable_tf32_compute")
        if tf32 and ("mixed_precision" in solver or "mixed_precision_type" in solver):
            raise rejected(
                solver.where("enable_tf32_compute"), True, "only one of it and mixed_precision"
            )
        give("enable_tf32_compute", "enable_tf32_compute", tf32)


def read_config(file: str | Path, solver: SessionSolver | None = None) -> Config:
    """Read a full config.

    Parameters
    ----------
    file : path
    solver : SessionSolver, optional
        Settings that win over the file's ``solver`` object, which may then be missing.

    Raises
    ------
    InvalidArgument
        Names the JSON path, what was found and what is allowed.
    """
    root = read_json(file)
    settings = SessionSolver()
    if solver is None or "solver" in root:
        settings = parse_solver(root.object("solver"))
    if solver is not None:
        settings = solver.filled_from(settings)
    elif "repeat_dataset" not in settings.origin:
        settings = SessionSolver(
            **{name: getattr(settings, name) for name in settings.origin},
            repeat_dataset=False,
            num_epochs=1,
            origin=settings.origin,
        )
    optimizer = parse_optimizer(root.object("optimizer"))
    layers = parse_layers(root, shares_memory=settings.memory is not None)
    name = root.text("model_name", "")
    root.ignore("inference")
    root.finish()
    return Config(settings.with_run_length(), optimizer, layers, name)


def SolverParser(file: str | Path) -> SessionSolver:
    """The ``solver`` object of a config, for the older ``Session``."""
    return parse_solver(read_json(file).object("solver"))


def get_learning_rate_scheduler(config_file: str | Path) -> LearningRateScheduler:
    """A learning-rate scheduler as the config's ``optimizer`` object describes it.

    Examples
    --------
    ``lr_sch = hugectr.get_learning_rate_scheduler("dcn.json")``, then in the loop
    ``sess.set_learning_rate(lr_sch.get_next())``.
    """
    optimizer = parse_optimizer(read_json(config_file).object("optimizer"))
    return (optimizer.schedule or Schedule()).scheduler()
