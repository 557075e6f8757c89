# SPDX-License-Identifier: Apache-2.0
"""Solver settings of the older Session API: ``solver_parser_helper`` and the JSON's solver."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ParamSpec

from hugectr.base.arguments import check_bool, check_choice, check_float, check_int, check_names
from hugectr.base.no_effect import warn_no_effect
from hugectr.spec.enums import DeviceLayout, MetricsType
from hugectr.spec.memory import Memory
from hugectr.spec.optimizer import Schedule
from hugectr.spec.precision import check_precision
from hugectr.spec.solver import (
    DEVICES,
    Solver,
    check_batchsize,
    check_micro_batches,
    check_vvgpu,
)

P = ParamSpec("P")
WHERE = "solver_parser_helper: "
NO_FOLDER = "tables are held in memory, nothing of them is laid aside in files"


@dataclass(frozen=True)
class SessionSolver:
    """What ``solver_parser_helper`` returns, and what a config's ``solver`` object says.

    ``origin`` maps the settings that were given to what messages call them; the others have
    their defaults.
    """

    seed: int = 0
    max_eval_batches: int = 100
    batchsize_eval: int = 2048
    batchsize: int = 2048
    model_file: str = ""
    dense_opt_states_file: str = ""
    embedding_files: list[str] = field(default_factory=list)
    sparse_opt_states_file: list[str] = field(default_factory=list)
    vvgpu: list[list[int]] = field(default_factory=lambda: [[0]])
    use_mixed_precision: bool = False
    enable_tf32_compute: bool = False
    scaler: float = 1.0
    i64_input_key: bool = False
    use_algorithm_search: bool = True
    use_cuda_graph: bool = True
    repeat_dataset: bool = True
    max_iter: int = 0
    num_epochs: int = 0
    display: int = 200
    snapshot: int = 10000
    snapshot_prefix: str = "./"
    eval_interval: int = 1000
    metrics_spec: Mapping[MetricsType, float] = field(
        default_factory=lambda: {MetricsType.AUC: 1.0}
    )
    device_layout: DeviceLayout = DeviceLayout.LocalFirst
    device: str = "auto"
    drop_incomplete_batch: bool = False
    mixed_precision_type: str = "float16"
    dynamic_loss_scaling: bool = False
    use_model_oversubscriber: bool = False
    memory: Memory | None = None
    num_iterations_statistics: int = 20
    plan: str | None = None
    wire: str | None = None
    micro_batches: int = 1
    origin: Mapping[str, str] = field(default_factory=dict)

    def filled_from(self, other: "SessionSolver") -> "SessionSolver":
        """These settings, and the other's where only the other was given one."""
        taken = {name: getattr(other, name) for name in other.origin if name not in self.origin}
        # A run is counted in iterations or in epochs, as whoever said something about it wants.
        counts = {"repeat_dataset", "max_iter", "num_epochs"}
        if counts & set(self.origin):
            taken = {name: value for name, value in taken.items() if name not in counts}
        return replace(self, **taken, origin={**other.origin, **self.origin})

    def with_run_length(self) -> "SessionSolver":
        """With ``max_iter`` or ``num_epochs`` filled in: 10000 iterations, or one epoch."""
        if self.repeat_dataset:
            return self if self.max_iter > 0 else replace(self, max_iter=10000)
        return self if self.num_epochs > 0 else replace(self, num_epochs=1)

    def to_solver(self, schedule: Schedule | None, model_name: str = "") -> Solver:
        """The settings as Model takes them.

        Raises
        ------
        InvalidArgument
            When settings do not fit together; names them as they were given.
        """
        devices = sum(len(row) for row in self.vvgpu)
        for name in ("batchsize", "batchsize_eval"):
            check_batchsize(self.origin.get(name, WHERE + name), getattr(self, name), devices)
        where = self.origin.get("batchsize", WHERE + "batchsize")
        check_micro_batches(where, self.batchsize, devices, self.micro_batches)
        schedule = schedule or Schedule()
        return Solver(
            model_name=model_name,
            seed=self.seed,
            lr=schedule.base_lr,
            warmup_steps=schedule.warmup_steps,
            decay_start=schedule.decay_start,
            decay_steps=schedule.decay_steps,
            decay_power=schedule.decay_power,
            end_lr=schedule.end_lr,
            max_eval_batches=self.max_eval_batches,
            batchsize_eval=self.batchsize_eval,
            batchsize=self.batchsize,
            vvgpu=self.vvgpu,
            repeat_dataset=self.repeat_dataset,
            use_mixed_precision=self.use_mixed_precision,
            scaler=self.scaler,
            enable_tf32_compute=self.enable_tf32_compute,
            metrics_spec=self.metrics_spec,
            i64_input_key=self.i64_input_key,
            use_algorithm_search=self.use_algorithm_search,
            use_cuda_graph=self.use_cuda_graph,
            device_layout=self.device_layout,
            device=self.device,
            drop_incomplete_batch=self.drop_incomplete_batch,
            mixed_precision_type=self.mixed_precision_type,
            dynamic_loss_scaling=self.dynamic_loss_scaling,
            memory=self.memory,
            num_iterations_statistics=self.num_iterations_statistics,
            plan=self.plan,
            wire=self.wire,
            micro_batches=self.micro_batches,
        )


def _remember_given(make: Callable[P, SessionSolver]) -> Callable[P, SessionSolver]:
    """Note in ``origin`` which arguments the caller gave: these win over a config's."""
    signature = inspect.signature(make)

    @functools.wraps(make)
    def made(*args: P.args, **kwargs: P.kwargs) -> SessionSolver:
        given = signature.bind(*args, **kwargs).arguments
        known = {item.name for item in fields(SessionSolver)}
        return replace(
            make(*args, **kwargs), origin={name: WHERE + name for name in given if name in known}
        )

    return made


@_remember_given
def solver_parser_helper(
    seed: int = 0,
    max_eval_batches: int = 100,
    batchsize_eval: int = 2048,
    batchsize: int = 2048,
    model_file: str = "",
    dense_opt_states_file: str = "",
    embedding_files: Sequence[str] = (),
    sparse_opt_states_file: Sequence[str] = (),
    vvgpu: Sequence[Sequence[int]] = ((0,),),
    use_mixed_precision: bool = False,
    enable_tf32_compute: bool = False,
    scaler: float = 1.0,
    i64_input_key: bool = False,
    use_algorithm_search: bool = True,
    use_cuda_graph: bool = True,
    repeat_dataset: bool = True,
    max_iter: int = 0,
    num_epochs: int = 0,
    display: int = 200,
    snapshot: int = 10000,
    eval_interval: int = 1000,
    use_model_oversubscriber: bool = False,
    temp_embedding_dir: str = "./",
    *,
    device: str = "auto",
    drop_incomplete_batch: bool = False,
    mixed_precision_type: str = "float16",
    dynamic_loss_scaling: bool = False,
) -> SessionSolver:
    """Settings for the older ``Session``.

    Parameters
    ----------
    seed, max_eval_batches, batchsize_eval, batchsize, vvgpu, use_mixed_precision, \
enable_tf32_compute, scaler, i64_input_key, use_algorithm_search, use_cuda_graph, \
repeat_dataset, device, drop_incomplete_batch, \
mixed_precision_type, dynamic_loss_scaling
        As in ``CreateSolver``. Arguments given here win over the config's ``solver`` object.
    model_file, dense_opt_states_file : str
        Dense weights and their optimizer states to start from.
    embedding_files, sparse_opt_states_file : list of str
        Tables and their optimizer states to start from, one each in the model's order.
    max_iter, num_epochs, display, snapshot, eval_interval
        Of ``hugectr train``. With ``repeat_dataset``, ``max_iter`` 0 is 10000; without,
        ``num_epochs`` 0 is 1.
    temp_embedding_dir
        Accepted and without effect.
    use_model_oversubscriber : bool
        Tables have no bound, and the session has a ``get_model_oversubscriber()``.

    Raises
    ------
    InvalidArgument
        A ValueError that names the argument, what was found and what is allowed.
    """
    oversubscriber = check_bool(WHERE + "use_model_oversubscriber", use_model_oversubscriber)
    if temp_embedding_dir not in ("", "./"):
        warn_no_effect("solver_parser_helper", "temp_embedding_dir", NO_FOLDER)
    mixed = check_bool(WHERE + "use_mixed_precision", use_mixed_precision)
    tf32 = check_bool(WHERE + "enable_tf32_compute", enable_tf32_compute)
    scale = check_float(WHERE + "scaler", scaler, 0.0, exclusive=True)
    dynamic = check_bool(WHERE + "dynamic_loss_scaling", dynamic_loss_scaling)
    check_precision(WHERE, mixed, tf32, mixed_precision_type, dynamic)
    numbers: dict[str, Any] = {
        "seed": check_int(WHERE + "seed", seed, 0, 2**64 - 1),
        "max_eval_batches": check_int(WHERE + "max_eval_batches", max_eval_batches, 0),
        "batchsize_eval": check_int(WHERE + "batchsize_eval", batchsize_eval, 1),
        "batchsize": check_int(WHERE + "batchsize", batchsize, 1),
        "max_iter": check_int(WHERE + "max_iter", max_iter, 0),
        "num_epochs": check_int(WHERE + "num_epochs", num_epochs, 0),
        "display": check_int(WHERE + "display", display, 0),
        "snapshot": check_int(WHERE + "snapshot", snapshot, 0),
        "eval_interval": check_int(WHERE + "eval_interval", eval_interval, 0),
    }
    return SessionSolver(
        model_file=model_file,
        dense_opt_states_file=dense_opt_states_file,
        embedding_files=check_names(WHERE + "embedding_files", embedding_files),
        sparse_opt_states_file=check_names(
            WHERE + "sparse_opt_states_file", sparse_opt_states_file
        ),
        vvgpu=check_vvgpu(WHERE + "vvgpu", vvgpu),
        use_mixed_precision=mixed,
        enable_tf32_compute=tf32,
        scaler=scale,
        i64_input_key=check_bool(WHERE + "i64_input_key", i64_input_key),
        use_algorithm_search=check_bool(WHERE + "use_algorithm_search", use_algorithm_search),
        use_cuda_graph=check_bool(WHERE + "use_cuda_graph", use_cuda_graph),
        repeat_dataset=check_bool(WHERE + "repeat_dataset", repeat_dataset),
        device=check_choice(WHERE + "device", device, DEVICES),
        drop_incomplete_batch=check_bool(WHERE + "drop_incomplete_batch", drop_incomplete_batch),
        mixed_precision_type=mixed_precision_type,
        dynamic_loss_scaling=dynamic,
        use_model_oversubscriber=oversubscriber,
        **numbers,
    )
