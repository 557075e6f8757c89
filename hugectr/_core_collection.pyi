# SPDX-License-Identifier: Apache-2.0
"""Tables without a model, in the compiled module."""

from typing import Any, TypedDict

import numpy.typing as npt

from hugectr._core_session import TableAccess
from hugectr._core_specs import OptParams

#: Memory on the collection's device: address, shape, dtype, and of vectors and their gradients the
#: elements from one to the next, where they are not packed. The caller keeps it.
Memory = tuple[int, tuple[int, ...], str] | tuple[int, tuple[int, ...], str, int]

class TableParams(TypedDict, total=False):
    name: str
    embedding_vec_size: int
    combiner: str
    max_vocabulary_size_per_gpu: int
    vector_type: str  # what vectors are kept in: "float32" | "bfloat16"
    initial: str
    initial_bound: float
    opt_params: OptParams

class TableCollection:
    """Tables on one device whose forward and backward somebody else drives.

    Each list has an entry a table. Keys are int64 (n), offsets uint32 (m + 1), vectors and their
    gradients (m, 1, d) of float32, float16 or bfloat16. ``stream`` is the caller's cudaStream_t; 0
    on the CPU, where calls return when their work is done. Calls take turns.
    """

    def __init__(
        self, tables: list[TableParams], device: str = "cpu", device_id: int = 0, seed: int = 0
    ) -> None: ...
    def plan(self, batch: list[tuple[Memory, Memory]], stream: int = 0) -> int:
        """A batch that may train, by its token. Offsets must stay until forward() has run."""

    def forward(self, token: int, outputs: list[Memory], stream: int = 0) -> None: ...
    def look_up(
        self, batch: list[tuple[Memory, Memory]], outputs: list[Memory], stream: int = 0
    ) -> None:
        """Vectors of a batch that does not train: zeros for what is not known."""

    def accumulate(self, token: int, gradients: list[Memory | None], stream: int = 0) -> None: ...
    def squares(self, squares: Memory, stream: int = 0) -> None:
        """(tables) float64: sums of squares of the gradients that wait for a step."""

    def step(self, rates: npt.ArrayLike, unscale: Memory | None = None, stream: int = 0) -> None:
        """One update with a rate a table; ``unscale`` (tables) float32 multiplies gradients."""

    def clear_gradients(self) -> None: ...
    def has_gradients(self) -> bool: ...
    def release(self, token: int) -> None:
        """The batch is over; without a step its new rows never were."""

    def steps(self) -> int: ...
    def set_steps(self, steps: int) -> None: ...
    def set_trainable(self, table: int, trainable: bool) -> None: ...
    def is_trainable(self, table: int) -> bool: ...
    def tables(self) -> list[CollectionTable]: ...
    def memory_report(self) -> list[tuple[str, str, int]]:
        """Owner, name and bytes of what lies in memory of the device."""

class CollectionTable(TableAccess):
    """A table of a collection, by its number there."""

    def __init__(self, collection: Any, index: int) -> None: ...
