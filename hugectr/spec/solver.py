# SPDX-License-Identifier: Apache-2.0
"""Settings of a training run: ``CreateSolver``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from hugectr import _core, processes
from hugectr.base.arguments import (
    check_bool,
    check_choice,
    check_enum,
    check_float,
    check_int,
    check_str,
    listed,
)
from hugectr.base.errors import rejected
from hugectr.base.html_table import html_table
from hugectr.base.keywords import named_keywords
from hugectr.base.no_effect import warn_given
from hugectr.plan.placements import PlacementPlan
from hugectr.plan.scaling import MOST_MICRO_BATCHES
from hugectr.spec.enums import AllReduceAlgo, DeviceLayout, LrPolicy_t, MetricsType
from hugectr.spec.memory import Memory, check_memory
from hugectr.spec.metrics import check_metrics_spec, metric_names
from hugectr.spec.precision import check_precision
from hugectr.spec.wire import check_wire

DEVICES = ("auto", "cpu", "cuda")
_OVERLAP = "the step schedule overlaps what can be"
_NO_KAFKA = "models are not sent to Kafka: use Model.save, or get_incremental_model"
# Tuning of the original: fusion, overlap and capture are the schedule's own business here.
_SWITCHES_WITHOUT_EFFECT = {
    "async_mlp_wgrad": _OVERLAP,
    "gen_loss_summary": "the loss is read when somebody asks for it",
    "overlap_lr": "the learning rate takes no time of a step",
    "overlap_init_wgrad": _OVERLAP,
    "overlap_ar_a2a": _OVERLAP,
    "use_holistic_cuda_graph": "use_cuda_graph captures the dense part of a step",
    "use_overlapped_pipeline": _OVERLAP,
    "grouped_all_reduce": "gradients are summed in buckets, each as soon as it is there",
    "is_dlrm": "there is one kind of model",
    "train_intra_iteration_overlap": _OVERLAP,
    "train_inter_iteration_overlap": "the next batch is always looked up while one trains",
    "eval_intra_iteration_overlap": _OVERLAP,
    "eval_inter_iteration_overlap": "the reader reads evaluation batches ahead",
    "use_embedding_collection": "a model may hold tables of both kinds",
    "perf_logging": "Model.profile and fit(show_pipeline=True) say where the time goes",
}
#: What of CreateSolver's arguments means nothing here, and why.
WITHOUT_EFFECT = {
    **_SWITCHES_WITHOUT_EFFECT,
    "all_reduce_algo": "NCCL chooses the algorithm",
    **dict.fromkeys(("kafka_brockers", "kafka_brokers"), _NO_KAFKA),
}


def check_vvgpu(name: str, value: Any) -> list[list[int]]:
    """A list of device ids per process, e.g. ``[[0, 1], [0, 1]]``; ids differ inside a process."""
    allowed = "a non-empty list of non-empty lists of device ids, e.g. [[0, 1]]"
    value = listed(value)
    if not isinstance(value, list) or not value:
        raise rejected(name, value, allowed)
    rows: list[list[int]] = []
    for i, row in enumerate(map(listed, value)):
        if not isinstance(row, list) or not row:
            raise rejected(f"{name}[{i}]", row, allowed)
        ids = [check_int(f"{name}[{i}][{j}]", one, 0, 2**31 - 1) for j, one in enumerate(row)]
        if len(set(ids)) != len(ids):
            raise rejected(f"{name}[{i}]", row, "device ids that differ from each other")
        rows.append(ids)
    return rows


def check_batchsize(name: str, value: Any, devices: int) -> int:
    """A global batch size: a multiple of the number of devices."""
    size = check_int(name, value, 1, 2**31 - 1)
    if size % devices != 0:
        raise rejected(
            name, size, f"a multiple of {devices}, the number of devices (vvgpu; in JSON: gpu)"
        )
    return size


def check_micro_batches(where: str, batchsize: int, devices: int, count: int) -> None:
    """Every device has as many samples in each micro-batch."""
    if batchsize % (devices * count) != 0:
        allowed = f"a multiple of {devices * count}: {devices} devices times micro_batches {count}"
        raise rejected(where, batchsize, allowed)


def _check_callbacks(name: str, value: Any) -> tuple[Any, ...]:
    """A list of objects that are told of a training: callbacks, of which settings know no more."""
    if isinstance(value, str | type) or not hasattr(value, "__iter__"):
        raise rejected(name, value, "a list of hugectr.TrainingCallback objects")
    found = tuple(value)
    for i, callback in enumerate(found):
        if isinstance(callback, type) or not hasattr(callback, "on_eval"):
            raise rejected(f"{name}[{i}]", callback, "an object of hugectr.TrainingCallback")
    return found


@named_keywords("CreateSolver")
@dataclass(frozen=True)
class Solver:
    """Settings of a training run, read-only once made.

    Parameters
    ----------
    model_name : str
        Stored in the dumped graph.
    seed : int
        0 draws one; the one in use is logged as ``Global seed is``.
    lr_policy : LrPolicy_t
        ``fixed`` is the only one.
    lr, warmup_steps, decay_start, decay_steps, decay_power, end_lr
        Learning-rate schedule: linear warm-up to ``lr``, plateau, then from step ``decay_start``
        (0: never) a polynomial decay to ``end_lr`` over ``decay_steps`` steps.
    max_eval_batches : int
        Batches of one evaluation.
    batchsize_eval, batchsize : int
        Global, over all devices; multiples of the number of devices.
    vvgpu : list of list of int
        Device ids of each process. With device "cpu" the ids name virtual devices. The default is
        one device in every process: on CUDA the GPU of the process's number on its machine.
    repeat_dataset : bool
        True counts iterations and wraps around the data, False counts epochs.
    use_mixed_precision : bool
        The dense network computes in 16 bits (``mixed_precision_type``). Weights, tables, their
        gradients, optimizer states and all files stay float32. On the CPU this is correct but
        slower than float32: it is for trying things out.
    scaler : float
        Loss scale of float16, above 0; 128, 256, 512 or 1024 in v3. bfloat16 and
        dynamic_loss_scaling do not read it.
    enable_tf32_compute : bool
        Excludes use_mixed_precision; has no effect on the CPU.
    metrics_spec : dict of MetricsType to float
        Metrics of an evaluation (``MetricsType``) and their thresholds; AUC above its threshold
        ends fit(). Empty: an evaluation computes none.
    i64_input_key : bool
        Keys are int64 instead of uint32.
    use_cuda_graph : bool
        Submit the dense part of a step to a GPU as one CUDA graph; False: kernel by kernel.
    use_algorithm_search : bool
        Let matrix products on a GPU choose, at their first call, the fastest of the algorithms that
        give the same bits.
    async_mlp_wgrad, gen_loss_summary, overlap_lr, overlap_init_wgrad, \
overlap_ar_a2a, use_holistic_cuda_graph, use_overlapped_pipeline, \
all_reduce_algo, grouped_all_reduce, is_dlrm, kafka_brockers, \
kafka_brokers, train_intra_iteration_overlap, train_inter_iteration_overlap, \
eval_intra_iteration_overlap, eval_inter_iteration_overlap, use_embedding_collection, perf_logging
        Accepted for old scripts and without effect, with one warning that says why.
    num_iterations_statistics : int
        Batches in which ``placement="hybrid"`` counts keys.
    device_layout : DeviceLayout
        Order of global device ids over processes.
    device : {"auto", "cpu", "cuda"}
        "auto" takes CUDA when it is available.
    drop_incomplete_batch : bool
        Epoch mode: True drops the last, incomplete batch of a pass of training; False trains on its
        real samples. Evaluation counts all samples either way.
    mixed_precision_type : {"float16", "bfloat16", "fp8"}
        16-bit numbers of use_mixed_precision. "fp8" is bfloat16 but for the products of
        InnerProduct, FusedInnerProduct and MLP where the model trains: those with 16 inputs or more
        and a multiple of 16 outputs take weights and activations in e4m3 and gradients in e5m2,
        with a scale a tensor. Evaluation, predictions and files are those of bfloat16. It pays from
        about 2000 inputs and outputs on and costs time below. GPUs need compute capability 8.9; the
        CPU emulates it.
    dynamic_loss_scaling : bool
        float16: the scale is halved when a gradient overflows and doubled after 2000 steps
        without; the step that overflowed is skipped and counted.
    training_callbacks : list of TrainingCallback or Callback
        Told what happens in every ``fit``.
    plan : {"auto"}, path or PlacementPlan, optional
        Which devices hold which rows of the tables. ``"auto"``: what is predicted to be fastest, by
        the keys of the first samples and the rates of the machine; tables that have a
        ``placement`` keep it. A path: a JSON file of a plan, for all tables. The budget of a table
        is then that of all devices together, so that one of them may hold all of it. Not there: as
        each table says. A model goes on from a checkpoint with any plan.
    memory : Memory, optional
        Of all tables together that have none of their own: where rows lie when a device does not
        hold them all. It is dealt by the bytes of the rows that a sample has in each; what a table
        does not need for the rows that it may have at most goes to the others.
    wire : {"fp32", "bf16", "fp16", "fp8"}, optional
        For each table that has none of its own: what its vectors travel as between devices.
    micro_batches : int
        Parts, 1 to 8, that a device's samples of a training step go through the dense network in:
        vectors of the next part travel while one is in the network, gradients of the one before
        while it goes back. One update a step, by the gradients of all of them; losses and weights
        are those of one part but for the order of sums. It costs launches and smaller products, so
        that it pays where vectors come from other nodes. Layers with statistics over the batch
        (BatchNorm, PReLU_Dice) and losses with a weight of their own are refused.

    Raises
    ------
    InvalidArgument
        A ValueError that names the argument, what was found and what is allowed.
    """

    model_name: str = ""
    seed: int = 0
    lr_policy: LrPolicy_t = LrPolicy_t.fixed
    lr: float = 0.001
    warmup_steps: int = 1
    decay_start: int = 0
    decay_steps: int = 1
    decay_power: float = 2.0
    end_lr: float = 0.0
    max_eval_batches: int = 100
    batchsize_eval: int = 2048
    batchsize: int = 2048
    vvgpu: list[list[int]] = field(default_factory=lambda: [[0]])
    repeat_dataset: bool = True
    use_mixed_precision: bool = False
    scaler: float = 1.0
    enable_tf32_compute: bool = False
    metrics_spec: Mapping[MetricsType, float] = field(
        default_factory=lambda: {MetricsType.AUC: 1.0}
    )
    i64_input_key: bool = False
    use_algorithm_search: bool = True
    use_cuda_graph: bool = True
    async_mlp_wgrad: bool = False
    gen_loss_summary: bool = True
    overlap_lr: bool = False
    overlap_init_wgrad: bool = False
    overlap_ar_a2a: bool = False
    device_layout: DeviceLayout = DeviceLayout.LocalFirst
    use_holistic_cuda_graph: bool = False
    use_overlapped_pipeline: bool = False
    all_reduce_algo: AllReduceAlgo = AllReduceAlgo.NCCL
    grouped_all_reduce: bool = False
    num_iterations_statistics: int = 20
    is_dlrm: bool = False
    kafka_brockers: str = ""
    device: str = "auto"
    drop_incomplete_batch: bool = False
    mixed_precision_type: str = "float16"
    dynamic_loss_scaling: bool = False
    train_intra_iteration_overlap: bool = False
    train_inter_iteration_overlap: bool = False
    eval_intra_iteration_overlap: bool = False
    eval_inter_iteration_overlap: bool = False
    use_embedding_collection: bool = False
    perf_logging: bool = False
    training_callbacks: Sequence[Any] = ()
    kafka_brokers: str = ""
    plan: str | Path | PlacementPlan | None = None
    memory: Memory | None = None
    wire: str | None = None
    micro_batches: int = 1

    def __post_init__(self) -> None:
        def checked(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        where = "CreateSolver: "
        checked("model_name", check_str(where + "model_name", self.model_name))
        checked("seed", check_int(where + "seed", self.seed, 0, 2**64 - 1))
        check_enum(where + "lr_policy", self.lr_policy, LrPolicy_t)
        checked("lr", check_float(where + "lr", self.lr, 0.0))
        checked("warmup_steps", check_int(where + "warmup_steps", self.warmup_steps, 1))
        checked("decay_start", check_int(where + "decay_start", self.decay_start, 0))
        checked("decay_steps", check_int(where + "decay_steps", self.decay_steps, 1))
        checked("decay_power", check_float(where + "decay_power", self.decay_power, 1.0))
        checked("end_lr", check_float(where + "end_lr", self.end_lr, 0.0))
        checked("max_eval_batches", check_int(where + "max_eval_batches", self.max_eval_batches, 0))
        check_choice(where + "device", self.device, DEVICES)
        rows = check_vvgpu(where + "vvgpu", self.vvgpu)
        if rows == [[0]]:
            rows = processes.default_vvgpu(self.resolved_device())
        checked("vvgpu", rows)
        for name in ("batchsize", "batchsize_eval"):
            checked(name, check_batchsize(where + name, getattr(self, name), self.num_devices))
        for name in (
            "repeat_dataset",
            "use_mixed_precision",
            "enable_tf32_compute",
            "i64_input_key",
            "drop_incomplete_batch",
            "dynamic_loss_scaling",
            "use_cuda_graph",
            "use_algorithm_search",
            *_SWITCHES_WITHOUT_EFFECT,
        ):
            checked(name, check_bool(where + name, getattr(self, name)))
        check_memory(where + "memory", self.memory)
        check_wire(where + "wire", self.wire)
        parts = check_int(where + "micro_batches", self.micro_batches, 1, MOST_MICRO_BATCHES)
        check_micro_batches(where + "batchsize", self.batchsize, self.num_devices, parts)
        checked("scaler", check_float(where + "scaler", self.scaler, 0.0, exclusive=True))
        check_precision(
            where,
            self.use_mixed_precision,
            self.enable_tf32_compute,
            self.mixed_precision_type,
            self.dynamic_loss_scaling,
        )
        checked("metrics_spec", check_metrics_spec(where + "metrics_spec", self.metrics_spec))
        check_enum(where + "device_layout", self.device_layout, DeviceLayout)
        check_enum(where + "all_reduce_algo", self.all_reduce_algo, AllReduceAlgo)
        check_int(where + "num_iterations_statistics", self.num_iterations_statistics, 1)
        plan: object = self.plan
        if isinstance(plan, (str, Path)):
            path = str(plan)  # whether it can be that of a file read_plan says
            checked("plan", path or check_str(where + "plan", path, empty=False))
        elif plan is not None and not isinstance(plan, PlacementPlan):
            allowed = "'auto', the path of a JSON file of a plan, or a plan (Model.plan)"
            raise rejected(where + "plan", plan, allowed)
        for name in ("kafka_brockers", "kafka_brokers"):
            check_str(where + name, getattr(self, name))
        checked(
            "training_callbacks",
            _check_callbacks(where + "training_callbacks", self.training_callbacks),
        )
        defaults = {item.name: item.default for item in fields(self)}
        warn_given("CreateSolver", vars(self), defaults, WITHOUT_EFFECT)

    @property
    def num_devices(self) -> int:
        """Number of devices over all processes."""
        return sum(len(row) for row in self.vvgpu)

    @property
    def compute_dtype(self) -> str:
        """Numbers the dense network computes in: "float32", "float16" or "bfloat16"."""
        if not self.use_mixed_precision:
            return "float32"
        return "bfloat16" if self.mixed_precision_type == "fp8" else self.mixed_precision_type

    @property
    def fp8(self) -> bool:
        """Whether linear layers multiply in fp8 where they train."""
        return self.use_mixed_precision and self.mixed_precision_type == "fp8"

    @property
    def scales_dynamically(self) -> bool:
        """Whether the loss scale of float16 follows the overflows."""
        return self.compute_dtype == "float16" and self.dynamic_loss_scaling

    @property
    def loss_scale(self) -> float:
        """Static loss scale of float16; 0 when there is none."""
        static = self.compute_dtype == "float16" and not self.dynamic_loss_scaling
        return self.scaler if static else 0.0

    def resolved_device(self) -> str:
        """``device`` with "auto" decided: "cuda" or "cpu"."""
        if self.device != "auto":
            return self.device
        return "cuda" if _core.device_count("cuda") > 0 else "cpu"

    def _repr_html_(self) -> str:
        default = Solver()
        rows = [
            [item.name, getattr(self, item.name), getattr(default, item.name)]
            for item in fields(self)
            if item.name not in WITHOUT_EFFECT
        ]
        rows.sort(key=lambda row: row[1] == row[2])  # what was chosen first
        return html_table("Solver", ["setting", "value", "default"], rows)

    def to_spec(self) -> _core.SolverSpec:
        """The settings as the core reads them."""
        return {
            "model_name": self.model_name,
            "seed": self.seed,
            "batchsize": self.batchsize,
            "batchsize_eval": self.batchsize_eval,
            "max_eval_batches": self.max_eval_batches,
            "vvgpu": self.vvgpu,
            "device": self.resolved_device(),
            "device_layout": self.device_layout.name,
            "repeat_dataset": self.repeat_dataset,
            "drop_incomplete_batch": self.drop_incomplete_batch,
            "lr": self.lr,
            "warmup_steps": self.warmup_steps,
            "decay_start": self.decay_start,
            "decay_steps": self.decay_steps,
            "decay_power": self.decay_power,
            "end_lr": self.end_lr,
            "i64_input_key": self.i64_input_key,
            "metrics": metric_names(self.metrics_spec),
            "compute_dtype": self.compute_dtype,
            "loss_scale": self.loss_scale,
            "dynamic_loss_scale": self.scales_dynamically,
            "tf32": self.enable_tf32_compute,
            "fp8": self.fp8,
            "use_cuda_graph": self.use_cuda_graph,
            "use_algorithm_search": self.use_algorithm_search,
            "micro_batches": self.micro_batches,
        }


#: The name scripts use.
CreateSolver = Solver
