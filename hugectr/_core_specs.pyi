# SPDX-License-Identifier: Apache-2.0
"""Structs of the core as the dicts that they travel in: fields and types."""

from typing import Any, NotRequired, Protocol, TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt

#: "optimizer" and "update_type" by name, "atomic_update", and fields of optimizers by name.
OptParams: TypeAlias = dict[str, str | float | bool]

class CatalogueField(TypedDict):
    default: float
    minimum: float
    below: float  # values stay below it; inf: no bound
    doc: str

class CatalogueEntry(TypedDict):
    doc: str
    fields: dict[str, CatalogueField]

class OptimizerEntry(CatalogueEntry):
    states: dict[str, str]  # "element": a number a weight, "row": one a row
    moves_untouched_rows: bool  # unless the update type is Local
    decays: bool  # takes weight_decay

class LayerEntry(CatalogueEntry):
    op: str  # parameters are <op>_<field>, in JSON <op>_param.<field>

class LossEntry(LayerEntry):
    labels: tuple[float, float]  # least and most
    prediction: str  # "sigmoid" | "identity" | "softmax" of the logits

class LayerSpec(TypedDict, total=False):
    type: str
    bottoms: list[str]
    tops: list[str]
    attributes: dict[str, Any]  # bool, int, float, str, list[int], list[float]

class SparseInputSpec(TypedDict, total=False):
    top_name: str
    nnz_per_slot: list[int]
    is_fixed_length: bool
    slot_num: int

class InputSpec(TypedDict, total=False):
    label_name: str
    dense_name: str
    label_dim: int
    dense_dim: int
    labels: list[tuple[str, int]]  # name and columns of each, where there are several
    group_name: str  # the label whose values are the groups of GAUC; "": none
    sparse: list[SparseInputSpec]

class EmbeddingSpec(TypedDict, total=False):
    type: str  # Embedding_t name
    workspace_size_per_gpu_in_mb: int
    max_vocabulary_size_per_gpu: int
    embedding_vec_size: int
    combiner: str  # "sum" | "mean" | "concat"
    exchange: str  # "auto" | "pooled" | "unique"
    wire: str  # "own" | "fp32" | "bf16" | "fp16" | "fp8"
    placement: str | None  # as manifests name it; None: as the type says
    placement_device: int  # one_device: which; by_column: the first
    frequent: Any  # hybrid: array of int64, keys whose rows every device has, each once
    name: str
    top: str  # tensor of its vectors; "": as the table is called
    bottoms: list[str]  # sparse inputs; of several the table has all slots
    slot_size_array: list[int]
    vector_type: str  # what vectors are kept in: "float32" | "bfloat16"
    direct: bool  # slots have the keys that their sizes say, and no others
    initial: str  # "uniform" | "sinusoidal"
    initial_bound: float  # of "uniform"; 0: as v3 does it
    memory_device: int | None  # bytes of places for rows on each device; None: all rows there
    memory_host: int | None  # bytes of rows in host memory, of each device; None: no bound
    memory_disk_folder: str | None  # below the host's memory; None: no disk
    memory_disk: int  # bytes of rows there, of each device
    opt_params: OptParams | None
    life: dict[str, Any]  # fields of hugectr.spec.row_life.RowLife; without it rows do not go

class ModelSpec(TypedDict, total=False):
    input: InputSpec
    embeddings: list[EmbeddingSpec]
    layers: list[LayerSpec]
    opt_params: OptParams
    trains: bool  # False: nothing of training is built

class SolverSpec(TypedDict, total=False):
    model_name: str
    seed: int
    batchsize: int
    batchsize_eval: int
    max_eval_batches: int
    vvgpu: list[list[int]]
    device: str  # "cpu" | "cuda"
    device_layout: str  # "LocalFirst" | "NodeFirst"
    repeat_dataset: bool
    drop_incomplete_batch: bool
    lr: float
    warmup_steps: int
    decay_start: int
    decay_steps: int
    decay_power: float
    end_lr: float
    i64_input_key: bool
    metrics: list[str]  # names of metrics()
    compute_dtype: str  # "float32" | "float16" | "bfloat16"
    loss_scale: float  # float16; 0: none
    dynamic_loss_scale: bool
    tf32: bool
    fp8: bool  # bfloat16; linear layers multiply in fp8 where they train
    use_cuda_graph: bool
    use_algorithm_search: bool
    micro_batches: int

class MemoryData(TypedDict):
    label: npt.NDArray[np.float32]  # (n, label_dim)
    dense: npt.NDArray[np.float32]  # (n, dense_dim)
    sparse: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]]  # keys, row offsets
    weight: NotRequired[npt.NDArray[np.float32] | None]  # (n,); None: each counts 1

class ArrowDecoder(Protocol):
    """What hands record batches to the core; called from its threads."""

    def open(self, source: str) -> tuple[list[str], list[tuple[int, int, int]]]:
        """Files of a source, and (file, rows, bytes once decoded) of each block, none empty.

        Blocks whose bytes are 0 do not count against read_ahead_bytes.
        """

    def read(self, block: int) -> Any:
        """A block, as a record batch of pyarrow."""

    def decode(self, block: int, schema: int, array: int) -> None:
        """Exports a block as struct array to the addresses of an ArrowSchema and ArrowArray."""

class RawReading(TypedDict, total=False):
    num_samples: int
    float_label: bool
    float_dense: bool
    keys: str
    slot_offsets: list[int]
    direct: bool
    block_bytes: int
    keep_bytes: int
    on_bad_data: str

class ArrowMapping(TypedDict, total=False):
    labels: list[str]
    dense: list[str]
    slots: list[str]
    slot_offsets: list[int]
    sequences: list[str]

class ShuffleSpec(TypedDict, total=False):
    seed: int
    files: bool
    blocks: bool
    window: int

class ReadPosition(TypedDict):
    epoch: int
    sample: int
    file: int
    record: int
    byte: int

class ReaderSpec(TypedDict, total=False):
    format: str  # "Norm" | "Raw" | "Arrow"
    source: str
    eval_source: str
    check: str  # "Sum" | "None"
    on_bad_data: str  # "error" | "skip"
    max_bad_share: float
    num_workers: int
    resident_batches: int
    memory: MemoryData | None
    eval_memory: MemoryData | None
    raw: RawReading | None
    eval_raw: RawReading | None
    arrow: ArrowDecoder | None
    eval_arrow: ArrowDecoder | None
    columns: ArrowMapping | None
    shuffle: ShuffleSpec | None
    decode_threads: int
    read_ahead_bytes: int
    replicated: bool
