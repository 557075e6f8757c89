# SPDX-License-Identifier: Apache-2.0
"""Tables as users describe them, and as objects of TorchRec's shape do."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hugectr.base.arguments import check_float, check_int
from hugectr.base.errors import InvalidArgument, rejected
from hugectr.spec.embedding import check_vector_type
from hugectr.spec.memory import Memory, check_memory

if TYPE_CHECKING:
    import torch

    from hugectr._core import OptParams, TableParams


#: What stands for a bound of 0, which means the default to the core: vectors that are 0 for any sum
#: with another float32, and none that processors compute with slowly.
_NEXT_TO_NONE = 1e-30

#: Where the rows of a table are.
PLACEMENTS = ("by_key", "by_slot", "replicated")


@dataclass
class TableConfig:
    """One embedding table of a collection and the features that look up in it.

    Parameters
    ----------
    name : str
        Unique in a collection.
    embedding_dim : int
        Length of a row's vector, 1 to 1024.
    feature_names : sequence of str
        Features of a batch whose keys are keys of this table; by default one with the table's name.
    pooling : str
        How the vectors of one bag become one: ``"sum"`` or ``"mean"``. Un-pooled collections make
        nothing of it.
    max_rows : int
        Rows the table may have; 0: as many as memory takes. Keys are any int64 numbers but the
        largest; a key that is new gets a row.
    initial_bound : float
        New rows are uniform in +-initial_bound, drawn by (seed, table, key, column) alone; 0: 0.05.
    placement : str
        Where rows are when there are several processes: ``"by_key"``, a row with process
        key % processes, ``"by_slot"``, all of the table with process number % processes of the
        table's number in its collection, or ``"replicated"``, every row with every process, the
        same to the bit: of small tables keys and gradients travel, and no vectors. ``max_rows`` is
        a limit of each process.
    vector_type : str
        What vectors are kept in: ``"float32"``, or ``"bfloat16"``, which takes half the memory:
        updates are computed in float32 and rounded at random, right on average, by (seed, table,
        key, step, column) alone.
    memory : hugectr.Memory, optional
        Where rows lie when the memory of the device does not hold them all; None: all do. The rows
        that come out are the same to the bit. The device must hold the rows of all batches that
        are alive, and of an update; ``prefetch`` brings those of a batch ahead. Its budgets are of
        each process, which makes a folder of its own in that of the disk.
    """

    name: str
    embedding_dim: int
    feature_names: Sequence[str] = field(default_factory=tuple)
    pooling: str = "sum"
    max_rows: int = 0
    initial_bound: float = 0.0
    placement: str = "by_key"
    vector_type: str = "float32"
    memory: Memory | None = None

    def __post_init__(self) -> None:
        where = f"TableConfig {self.name!r}: "
        if not isinstance(self.name, str):
            raise rejected("TableConfig: name", self.name, "a text")
        if isinstance(self.feature_names, str):
            raise rejected(where + "feature_names", self.feature_names, "a list of names")
        self.feature_names = tuple(self.feature_names) or (self.name,)
        for name in self.feature_names:
            if not isinstance(name, str):
                raise rejected(where + "feature_names", self.feature_names, "a list of names")
        check_int(where + "embedding_dim", self.embedding_dim, 1, 1024)
        check_int(where + "max_rows", self.max_rows, 0)
        check_vector_type(where + "vector_type", self.vector_type)
        check_float(where + "initial_bound", self.initial_bound, 0.0)
        if self.pooling not in ("sum", "mean"):
            raise rejected(where + "pooling", self.pooling, "'sum', 'mean'")
        check_memory(where + "memory", self.memory)
        if self.placement not in PLACEMENTS:
            allowed = ", ".join(map(repr, PLACEMENTS))
            raise rejected(where + "placement", self.placement, allowed)

    def to_spec(
        self, opt_params: OptParams, device: torch.device, process: int | None = None
    ) -> TableParams:
        """The table as the core reads it.

        Parameters
        ----------
        opt_params : mapping
        device : torch.device
        process : int, optional
            Which of several this one is.
        """
        spec: TableParams = {
            "name": self.name,
            "embedding_vec_size": self.embedding_dim,
            "combiner": self.pooling,
            "max_vocabulary_size_per_gpu": self.max_rows,
            "initial_bound": self.initial_bound,
            "vector_type": self.vector_type,
            "opt_params": opt_params,
        }
        if self.memory is None:
            return spec
        memory = self.memory.to_spec(device.type, [[device.index or 0]])
        spec["memory_device"] = memory.get("memory_device")
        spec["memory_host"] = memory.get("memory_host")
        folder = memory.get("memory_disk_folder")
        if folder is not None:
            own = folder if process is None else os.path.join(folder, f"process{process}")
            spec["memory_disk_folder"] = own
            spec["memory_disk"] = memory.get("memory_disk", 0)
        return spec


def table_config(config: Any) -> TableConfig:
    """What a config says, of whatever class it is.

    Parameters
    ----------
    config : TableConfig or object of the shape of TorchRec's ``EmbeddingBagConfig``
        Of the latter ``name``, ``embedding_dim``, ``feature_names``, ``pooling`` and the bound of
        first values (``weight_init_max``, or 1 / sqrt(``num_embeddings``)) are taken.
        A ``weight_init_max`` of 0 makes first values of some 1e-30, which add nothing.
        ``num_embeddings`` is no limit here: rows come with their keys. ``init_fn`` and
        ``data_type`` are not read.

    Raises
    ------
    InvalidArgument
        When something is missing.
    """
    if isinstance(config, TableConfig):
        return config
    missing = [name for name in ("name", "embedding_dim") if not hasattr(config, name)]
    if missing:
        raise InvalidArgument(
            f"a table's config: {type(config).__name__} has no {missing[0]}; give a "
            "hugectr.torch.TableConfig, or an object of the shape of TorchRec's EmbeddingBagConfig"
        )
    pooling = getattr(config, "pooling", "sum")
    bound = getattr(config, "weight_init_max", None)
    rows = getattr(config, "num_embeddings", 0)
    if bound is None and rows:
        bound = 1.0 / math.sqrt(rows)
    if bound == 0:
        bound = _NEXT_TO_NONE
    return TableConfig(
        name=config.name,
        embedding_dim=config.embedding_dim,
        feature_names=getattr(config, "feature_names", None) or (),
        pooling=str(getattr(pooling, "name", pooling)).lower(),
        initial_bound=bound or 0.0,
    )


def table_configs(configs: Sequence[Any]) -> list[TableConfig]:
    """The tables of a collection, whose names and features are all different.

    Raises
    ------
    InvalidArgument
        When there is none, or a name or feature is there twice.
    """
    if not isinstance(configs, Iterable):
        raise InvalidArgument(
            f"a collection's tables: found one {type(configs).__name__}, give a list of them"
        )
    tables = [table_config(config) for config in configs]
    if not tables:
        raise InvalidArgument("a collection needs a table")
    names = [table.name for table in tables]
    features = [feature for table in tables for feature in table.feature_names]
    for what, all_of_them in (("table", names), ("feature", features)):
        for name in all_of_them:
            if all_of_them.count(name) > 1:
                raise InvalidArgument(
                    f"a collection has {what} {name!r} twice; each looks up in one table"
                )
    return tables
