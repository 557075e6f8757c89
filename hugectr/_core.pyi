# SPDX-License-Identifier: Apache-2.0
"""The compiled module. Internal: use the classes of ``hugectr`` instead.

Structs travel as dicts with exactly the field names given here; a missing key takes its default,
an unknown key is a ``ValueError``.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, NotRequired, TypedDict, TypeVar

import numpy as np
import numpy.typing as npt

from hugectr._core_collection import (
    CollectionTable as CollectionTable,
    SharedBatch as SharedBatch,
    SharedCommunicator as SharedCommunicator,
    TableCollection as TableCollection,
    TableExchange as TableExchange,
    TableParams as TableParams,
    TableSharing as TableSharing,
)
from hugectr._core_folder import HeldFolder as HeldFolder
from hugectr._core_learning_rate import LearningRateScheduler as LearningRateScheduler
from hugectr._core_serving import (
    LivePredictor as LivePredictor,
    Predictor as Predictor,
    SavedDescription as SavedDescription,
    read_description as read_description,
)
from hugectr._core_session import (
    Session as Session,
    SessionNetwork as SessionNetwork,
    SessionReader as SessionReader,
    SessionTable as SessionTable,
    TableAccess as TableAccess,
)
from hugectr._core_specs import (
    ArrowDecoder as ArrowDecoder,
    ArrowMapping as ArrowMapping,
    CatalogueEntry,
    CatalogueField,
    EmbeddingSpec as EmbeddingSpec,
    InputSpec as InputSpec,
    LayerEntry,
    LayerSpec as LayerSpec,
    LossEntry,
    MemoryData as MemoryData,
    ModelSpec as ModelSpec,
    OptimizerEntry,
    OptParams as OptParams,
    RawReading as RawReading,
    ReaderSpec as ReaderSpec,
    ReadPosition as ReadPosition,
    ShuffleSpec as ShuffleSpec,
    SolverSpec as SolverSpec,
    SparseInputSpec as SparseInputSpec,
)

_Class = TypeVar("_Class", bound=type)
_Function = TypeVar("_Function", bound=Callable[..., Any])

class InvalidArgument(ValueError): ...
class OutOfMemory(MemoryError): ...
class DeviceError(RuntimeError): ...
class DataError(RuntimeError): ...

comm_error_hooks: list[Callable[[], None]]

class CommError(RuntimeError): ...
class NonFiniteLoss(RuntimeError): ...

def version() -> str: ...
def cpu_features() -> list[str]: ...
def device_count(device: str) -> int: ...
def why_not(device: str) -> str: ...
def device_name(device: str, index: int) -> str: ...
def device_memory(device: str, index: int) -> int:
    """Bytes that the device is said to have; "cpu": the machine."""

def hold_memory(device: str, index: int, on_host: bool, size: int) -> None:
    """Take bytes and keep them until this process ends: what ``hugectr.model.hold_memory`` does."""

def device_libraries(device: str) -> dict[str, str]:
    """Name -> version and place, or why it can not be used; DeviceError without a backend."""

def activations() -> dict[str, LayerEntry]:
    """The catalogue of ``core/cpp/ops/elementwise``, by layer type."""

def losses() -> dict[str, LossEntry]:
    """The catalogue of ``core/cpp/losses``, by layer type."""

def metrics() -> dict[str, CatalogueEntry]:
    """The catalogue of ``core/cpp/metrics``, by name."""

def set_log_level(level: int) -> None: ...
def set_log_rank(rank: int) -> None:
    """Number of this process in its job; only process 0 writes lines of progress."""

def op_names(device: str = "cpu") -> list[str]: ...
def op_fields(name: str) -> dict[str, str]:
    """Field -> "in", "out", "inout" or "attribute"."""

def run_op(
    name: str,
    tensors: dict[str, npt.NDArray[Any] | list[npt.NDArray[Any]] | None],
    attributes: dict[str, Any] | None = None,
    device: str = "cpu",
) -> None:
    """Run one op by name and wait; outputs are written into the arrays given.

    Axis 0 may be strided. On "cuda" the arrays are copied to device 0 and back.
    """

def xxh64(data: bytes, seed: int = 0) -> int:
    """XXH64 of some bytes (``core/cpp/data/key_hash.hpp``)."""

def hash_keys(
    array: Any,
    seed: int,
    missing: int,
    known: npt.NDArray[np.int64] | None = None,
    rare: int = 0,
) -> npt.NDArray[np.int64]:
    """The key of every value of an Arrow array (``__arrow_c_array__``): text, numbers, booleans.

    ``seed`` is the field's own; nulls and NaN have the key ``missing``. With ``known``, which is
    ascending, keys that are not in it become ``rare``.
    """

def work_counts() -> dict[str, int]:
    """Ops, collectives and kernel launches of this process so far (``work_counts.hpp``)."""

def optimizers() -> dict[str, OptimizerEntry]:
    """The catalogue: every optimizer by name, in the order of ``Optimizer_t``."""

def adjustments() -> dict[str, CatalogueField]:
    """The fields that every optimizer takes, by name."""

def read_through(
    solver: dict[str, Any], reader: ReaderSpec, input: InputSpec, batches: int
) -> dict[str, float]:
    """Reads batches onto the devices and trains nothing: samples, bytes, seconds, metrics."""

def row_owners(
    placement: str | None,
    keys: npt.NDArray[np.int64],
    slot_ids: npt.NDArray[np.uint64] | None,
    devices: int,
) -> npt.NDArray[np.uint32]:
    """The device of ``devices`` that owns each row, by the placement's name (None: none)."""

def footprint(
    solver: SolverSpec,
    reader: ReaderSpec | None,
    model: ModelSpec,
    rows: Sequence[int | None] = (),
) -> tuple[
    list[tuple[int, str, str, str, int]],
    list[tuple[str, int, int, int]],
    list[tuple[str, str, bool, list[tuple[int, float, float]]]],
    list[str],
]:
    """Bytes of every part of a model: process, device, owner, part, bytes; of every table its
    name, rows counted, rows it may have (0: no bound), bytes a row; of every op of a device's
    training step without the tables its name, layer, whether its products are of 16 bits, and of
    each of its kernels bytes, operations of its product, and these in whole tiles of 32 where it
    multiplies many small matrices (else 0); and what tables lack to train so, in words.
    """

def layer_summary(
    solver: SolverSpec, model: ModelSpec
) -> list[tuple[str, list[str], list[str], list[tuple[int, ...]]]]:
    """Type, inputs, outputs and output shapes of every layer, before there is a Session."""

class BufferBag(TypedDict):
    keys: npt.NDArray[np.int64]  # (n,)
    slot_ids: npt.NDArray[np.uint64] | None  # (n,), where slots are part of identity
    vectors: npt.NDArray[np.float32]  # (n, d)
    states: list[npt.NDArray[np.float32]]  # (n, d), or (n, 1) where a row has one number
    last_step: npt.NDArray[np.int64] | None  # (n,), Adam LazyGlobal only
    scores: NotRequired[npt.NDArray[np.uint64] | None]  # (n,), where rows have a life

class RowOrder:
    def __len__(self) -> int: ...
    def keys(self, begin: int, end: int) -> npt.NDArray[np.int64]: ...
    def slot_ids(self, begin: int, end: int) -> npt.NDArray[np.uint64]: ...

class LinkedRows:
    """Rows of one device that lie in sealed segments of its disk, which stay there meanwhile."""

    def order(self) -> RowOrder:
        """The rows, as they lie in the segments; taken out."""

    def places(self) -> npt.NDArray[np.uint64]:
        """Where each lies (``core/cpp/embedding/storage/linked_segments.hpp``); taken out."""

    def row_bytes(self) -> int:
        """Of vector, states and last step, one after the other."""

    def segments(self) -> list[tuple[str, int, int, list[int]]]:
        """Path, bytes, CRC-32 of the first block, and of each 16 MiB."""

    def sync(self, number: int) -> None:
        """Wait until a segment would survive a loss of power."""

    def verify(self, number: int, again: bool) -> None:
        """Read a segment; DataError unless it is what was written. ``again``: even if it was."""

class LinkedSegments:
    """Rows in segments of a checkpoint: (path, bytes, CRC-32 of the first block) of each.

    Raises DataError, here and when rows are read, that names a file that is not what it must be.
    """

    def __init__(self, row_bytes: int, segments: Sequence[tuple[str, int, int]]) -> None: ...
    def read(self, places: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
        """The rows at these places, (n, row_bytes)."""

class TensorView:
    """A tensor in memory that is shared, not copied; keeps its owner alive.

    Handed out by ``Model.tensor``, ``Model.dense_weight``, ``Model.table`` and
    ``hugectr.interop.as_view``. On a CUDA device it has ``__cuda_array_interface__``, on the CPU
    ``__array_interface__``, and on both DLPack. Dimension 0 may be strided, the others are packed.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes between neighbours along each dimension."""

    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int:
        """Elements."""

    @property
    def nbytes(self) -> int: ...
    @property
    def dtype(self) -> str:
        """NumPy's name of the type, or ``bfloat16``."""

    @property
    def device(self) -> str:
        """``cpu`` or ``cuda:0``, ``cuda:1``, ..."""

    @property
    def ptr(self) -> int:
        """Address of the first element."""

    @property
    def stream(self) -> int | None:
        """Handle of the CUDA stream in whose order the memory is used; None on the CPU."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]: ...
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __len__(self) -> int: ...
    def copy_to_host(self) -> npt.NDArray[Any]:
        """The values in an array of their own; bfloat16 becomes float32. Waits for them."""

    def wait(self) -> None:
        """Block until what the owner was given to do so far is done."""

    def order_before(self, stream: int) -> None:
        """CUDA: later work of ``stream`` waits for what the owner was given to do so far."""

    def order_after(self, stream: int) -> None:
        """CUDA: later use of the view waits for what ``stream`` was given to do so far."""

def view_of_dlpack(capsule: Any) -> TensorView: ...
def view_of_array(array: npt.NDArray[Any]) -> TensorView: ...
def view_of_cuda_array(
    owner: Any, ptr: int, shape: tuple[int, ...], strides: tuple[int, ...] | None, dtype: str
) -> TensorView: ...

class TableViews(TypedDict):
    keys: TensorView
    slot_ids: TensorView | None
    vectors: TensorView
    states: list[TensorView]

def thread_shortage(what: str, cause: str) -> str:
    """Text for a thread that could not be started: what this process uses, and its limits."""

class Turn:
    """Calls on one object take turns, in the order in which their threads came.

    The thread that has the turn may take it again. Waiting lets go of the GIL and can be
    interrupted. In a forked child of the process that made the object there is none to be had:
    InvalidArgument.

    Parameters
    ----------
    what : str
        The object, as errors name it.
    """

    def __init__(self, what: str) -> None: ...
    def made_here(self) -> bool:
        """Whether this is the process that made it, no forked child."""

    def check(self) -> None: ...
    def take(self, seconds: float = -1.0) -> bool:
        """Wait for the turn, negative: however long; whether it was had in that time."""

    def give(self) -> None: ...
    def __enter__(self) -> Turn: ...
    def __exit__(self, *_: object) -> None: ...

def serialised(cls: _Class, but: Collection[str] = ()) -> _Class:
    """Has every public method of a class take the turn of its object, ``self._turn``.

    Such an object can not be copied or pickled. ``but``: methods that take none, as those marked
    ``unserialised`` do.
    """

def unserialised(function: _Function) -> _Function:
    """Marks a method that takes turns itself or may run beside all others."""

class Network:
    """One dense network on one device, for tests: forward and backward with given arrays."""

    def __init__(
        self,
        inputs: dict[str, tuple[int, ...]],
        layers: list[LayerSpec],
        train: bool = True,
        seed: int = 1,
        no_gradient: list[str] | None = None,
        device: str = "cpu",
        dtype: str = "float32",
    ) -> None:
        """``inputs``: name -> shape with the batch first (equal in all).

        ``dtype``: "float32", or "float16" or "bfloat16" for mixed precision; arrays go in and out
        as float32.
        """

    def parameters(self) -> list[tuple[str, tuple[int, ...]]]: ...
    def parameter(self, name: str) -> npt.NDArray[np.float32]: ...
    def set_parameter(self, name: str, value: npt.NDArray[np.float32]) -> None: ...
    def non_trainable(self, name: str) -> npt.NDArray[np.float32]: ...
    def forward(
        self,
        inputs: dict[str, npt.NDArray[np.float32]],
        sample_weight: npt.NDArray[np.float32] | None = None,
        step: int = 1,
    ) -> None: ...
    def backward(self, gradients: dict[str, npt.NDArray[np.float32]]) -> None:
        """``gradients``: of the tops nobody consumes (empty when the last layer is a loss)."""
    def tensor(self, name: str) -> npt.NDArray[np.float32]: ...
    def gradient(self, name: str) -> npt.NDArray[np.float32]: ...
    def parameter_gradient(self, name: str) -> npt.NDArray[np.float32]: ...
    def loss(self) -> float: ...
    def op_records(self) -> list[str]:
        """Names of the op records as they run, to see what fusion did."""
