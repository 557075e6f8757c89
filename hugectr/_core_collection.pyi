# SPDX-License-Identifier: Apache-2.0
"""Tables without a model, in the compiled module."""

from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from hugectr._core_session import TableAccess
from hugectr._core_specs import OptParams

#: Memory on the collection's device: address, shape, dtype, and of vectors and their gradients the
#: elements from one to the next, where they are not packed. The caller keeps it.
Memory = tuple[int, tuple[int, ...], str] | tuple[int, tuple[int, ...], str, int]

#: Keys of tables in one array: the keys (n) int64, the places (features + 1) where those of each
#: feature begin and the last end, offsets (features, B + 1) uint32 of each feature from its own
#: first key, the feature of each table. With a fifth, (features * B + 1) int64 or int32, offsets as
#: somebody gave them: they are checked, and the offsets before are made of them.
CutKeys = (
    tuple[Memory, list[int], Memory, list[int]]
    | tuple[Memory, list[int], Memory, list[int], Memory]
)
#: Keys of each table, and its offsets.
Keys = list[tuple[Memory, Memory]] | CutKeys
#: Vectors of tables side by side: the whole (m, 1, sum of d), and d of each.
CutVectors = tuple[Memory, list[int]]
#: Vectors of each table, or gradients.
Vectors = list[Memory | None] | CutVectors

class TableParams(TypedDict, total=False):
    name: str
    embedding_vec_size: int
    combiner: str
    max_vocabulary_size_per_gpu: int
    vector_type: str  # what vectors are kept in: "float32" | "bfloat16"
    initial: str
    initial_bound: float
    opt_params: OptParams
    memory_device: int | None  # as in EmbeddingSpec
    memory_host: int | None
    memory_disk_folder: str | None
    memory_disk: int

class TableCollection:
    """Tables on one device whose forward and backward somebody else drives.

    Each list has an entry a table. Keys are int64 (n), offsets uint32 (m + 1), vectors and their
    gradients (m, 1, d) of float32, float16 or bfloat16. ``stream`` is the caller's cudaStream_t; 0
    on the CPU, where calls return when their work is done. Calls take turns.
    """

    def __init__(
        self, tables: list[TableParams], device: str = "cpu", device_id: int = 0, seed: int = 0
    ) -> None: ...
    def plan(self, batch: Keys, stream: int = 0, held: Any = None) -> int:
        """A batch that may train, by its token. Offsets must stay until forward() has run.

        ``held`` is kept as long as the batch, and its ``token`` is set, before anybody can be
        interrupted.
        """

    def begin(self, batch: Keys, stream: int = 0, held: Any = None, beside: bool = False) -> int:
        """As plan(), without waiting for the keys: calls with the token say what is wrong.

        All memory of the batch must stay, and stay as it is, until forward() has run. ``beside``: a
        thread of the core's submits it.
        """

    def forward(self, token: int, outputs: Vectors, stream: int = 0) -> None: ...
    def look_up(self, batch: Keys, outputs: Vectors, stream: int = 0) -> None:
        """Vectors of a batch that does not train: zeros for what is not known."""

    def accumulate(self, token: int, gradients: Vectors, stream: int = 0) -> None: ...
    def update(self, token: int, gradients: Vectors, rates: npt.ArrayLike, stream: int = 0) -> None:
        """accumulate() and step() at once."""

    def accumulate_nothing(self) -> None:
        """A batch without a key has gradients: the next step counts."""

    def squares(self, squares: Memory, stream: int = 0) -> None:
        """(tables) float64: sums of squares of the gradients that wait for a step."""

    def step(self, rates: npt.ArrayLike, unscale: Memory | None = None, stream: int = 0) -> None:
        """One update with a rate a table; ``unscale`` (tables) float32 multiplies gradients."""

    def clear_gradients(self) -> None: ...
    def has_gradients(self) -> bool: ...
    def release(self, token: int) -> None:
        """The batch is over; without a step its new rows never were."""

    def is_alive(self, token: int) -> bool:
        """Whether there is such a batch."""

    def release_all(self) -> None:
        """All batches are over."""

    def steps(self) -> int: ...
    def set_steps(self, steps: int) -> None: ...
    def set_trainable(self, table: int, trainable: bool) -> None: ...
    def is_trainable(self, table: int) -> bool: ...
    def frozen_steps(self) -> list[int]:
        """Of each table the steps that went by while it was frozen."""

    def set_frozen_steps(self, steps: Sequence[int]) -> None: ...
    def tables(self) -> list[CollectionTable]: ...
    def memory_report(self) -> list[tuple[str, str, int]]:
        """Owner, name and bytes of what lies in memory of the device."""

class CollectionTable(TableAccess):
    """A table of a collection, by its number there."""

    def __init__(self, collection: Any, index: int) -> None: ...

class SharedBatch:
    """A batch of one process in shared tables. Made by ``TableSharing.ask``."""

    @property
    def token(self) -> int:
        """Of the rows that others ask for; 0: they are not planned."""
    @property
    def wanted(self) -> list[int]:
        """Rows that this process wants of each process, of the tables as they travel; once
        ``TableSharing.count`` has waited for them."""

class TableSharing:
    """Tables that processes share, seen by one of them: see the C++ class of this name.

    ``placements`` says of each table who has its rows: "by_key", "by_slot" (one process has all of
    a table) or "replicated" (every one has). Vectors travel in a message for each
    of ``groups``, the vector sizes there are. Memory is as ``TableCollection`` takes it; what a
    batch was asked with lives as long as that.
    """

    def __init__(
        self, tables: TableCollection, placements: list[str], rank: int, processes: int
    ) -> None: ...
    @property
    def groups(self) -> list[int]: ...
    @property
    def copies_to_all(self) -> bool:
        """Whether keys go through ``copy_to_all`` before they go out."""
    def on_every_process(self, table: int) -> bool: ...
    def owners(self, table: int, keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The process of each key (n); this one where every process has all rows."""
    def room(self, keys: int, mean_bags: int) -> int:
        """uint32 numbers that ``ask`` needs."""
    def ask(
        self,
        batch: Keys,
        keys: Memory,
        room: Memory,
        stream: int = 0,
        beside: bool = False,
        held: Any = None,
    ) -> SharedBatch:
        """Nobody waits: ``count`` comes before the next, and memory is left alone until then, for
        which ``held`` is kept. ``beside``: a thread of the core's submits it."""
    def count(self, batch: SharedBatch) -> None:
        """Waits for how many keys were asked for. May be called again."""
    def copy_to_all(
        self, batch: SharedBatch, keys: Memory, out: Memory, stream: int = 0
    ) -> None: ...
    def answer(self, batch: SharedBatch, wanted: list[int]) -> None:
        """``wanted`` of all processes, one after the other."""
    def keys(self, batch: SharedBatch) -> tuple[list[int], list[int]]:
        """Keys that go to each process, and that come from each."""
    def vectors(self, batch: SharedBatch) -> list[tuple[list[int], list[int]]]:
        """The same of rows' vectors in forward, a group each."""
    def gradients(self, batch: SharedBatch) -> list[tuple[list[int], list[int]]]:
        """The same of sums of gradients in backward."""
    def plan(
        self,
        batch: SharedBatch,
        keys: Memory,
        stream: int = 0,
        held: Any = None,
        beside: bool = False,
    ) -> None:
        """Nobody waits for the keys; ``give`` does, and raises what is wrong with them."""
    def check(self, batch: SharedBatch) -> None:
        """Waits for the plan; raises what is wrong with the keys that came."""
    def make_room(self, batch: SharedBatch, dtype: str, gradients: bool = False) -> None:
        """Has the memory there that ``give`` needs, or ``accumulate`` with ``gradients``."""
    def give(self, batch: SharedBatch, out: list[Memory], stream: int = 0) -> None: ...
    def look_up(
        self, batch: SharedBatch, keys: Memory, out: list[Memory], stream: int = 0
    ) -> None: ...
    def pool(
        self, batch: SharedBatch, came: list[Memory], outputs: Vectors, stream: int = 0
    ) -> None: ...
    def sum_gradients(
        self,
        batch: SharedBatch,
        gradients: Vectors,
        factor: float,
        out: list[Memory],
        stream: int = 0,
    ) -> None: ...
    def accumulate(self, batch: SharedBatch, came: list[Memory], stream: int = 0) -> None: ...

class SharedCommunicator:
    """What exchanges of the same processes and devices go by: see the C++ class.

    For the device of a sharing; ``group`` as ``Session`` takes it. Collective.
    """

    def __init__(self, of: TableSharing, group: Any) -> None: ...
    def abort(self, reason: str) -> None: ...

class TableExchange:
    """What processes that share tables send each other, submitted by a thread: see the C++ class.

    From ``give`` or ``accumulate`` until ``settle`` nothing else is called of the sharing or its
    tables but ``ask`` and ``count``; ``held`` is kept meanwhile.
    """

    def __init__(self, sharing: TableSharing, communicator: SharedCommunicator) -> None: ...
    def give(
        self,
        batch: SharedBatch,
        out: list[Memory],
        came: list[Memory],
        stream: int = 0,
        held: Any = None,
    ) -> None: ...
    def accumulate(
        self,
        batch: SharedBatch,
        out: list[Memory],
        came: list[Memory],
        stream: int = 0,
        held: Any = None,
        ahead: tuple[SharedBatch, Memory, Memory, int, Any] | None = None,
    ) -> None:
        """``out``: what ``TableSharing.sum_gradients`` has made. ``ahead``: a batch whose keys
        travel along and are planned; those that go out and those that come (n) int64, the stream by
        which they are there, and what is kept until the batch is released."""
    def is_under_way(self) -> bool:
        """Whether a call has not been settled."""
    def settle(self, stream: int = 0) -> None:
        """Until the call before is submitted; raises what went wrong."""
