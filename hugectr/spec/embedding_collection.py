# SPDX-License-Identifier: Apache-2.0
"""Embedding collections as users write them: tables, what looks them up, where they go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from hugectr.base import log
from hugectr.base.arguments import check_bool, check_enum, check_int, check_names, check_str
from hugectr.base.errors import InvalidArgument, did_you_mean, rejected
from hugectr.base.keywords import named_keywords
from hugectr.spec.embedding import MAX_VEC_SIZE, check_vector_type
from hugectr.spec.enums import CommunicationStrategy, CompressionStrategy
from hugectr.spec.initializers import InitialVectors, check_initializer
from hugectr.spec.optimizer import OptParamsPy
from hugectr.spec.placement import Placement

COMBINERS = ("sum", "mean", "concat")
#: How a table is placed: split over its GPUs, or whole on every one.
STRATEGIES = ("mp", "dp")

T = TypeVar("T")


@named_keywords("EmbeddingTableConfig")
class EmbeddingTableConfig:
    """A table of an embedding collection.

    Parameters
    ----------
    name : str
    max_vocabulary_size : int
        Keys it may hold; -1: as many as memory takes.
    ev_size : int
        Length of a vector, 1 to 1024.
    opt_params_or_empty, opt_params : OptParamsPy, optional
        The model's, when not given. Two names of one argument.
    init_param_or_empty, init_param : Uniform or Sinusoidal, optional
        What new rows hold; None: uniform in +-sqrt(1 / max_vocabulary_size), or in +-0.05 where
        that is -1. Two names of one argument.
    vector_type : {"float32", "bfloat16"}
        What vectors are kept in, as of ``SparseEmbedding``.

    Raises
    ------
    InvalidArgument
        A ValueError that names the argument, what was found and what is allowed.
    """

    def __init__(
        self,
        name: str,
        max_vocabulary_size: int,
        ev_size: int,
        opt_params_or_empty: OptParamsPy | None = None,
        init_param_or_empty: InitialVectors | None = None,
        *,
        opt_params: OptParamsPy | None = None,
        init_param: InitialVectors | None = None,
        vector_type: str = "float32",
    ) -> None:
        # Scripts that make tables in a loop name them by number.
        self.name = check_str("EmbeddingTableConfig: name", name, empty=False)
        where = f"EmbeddingTableConfig {self.name!r}: "
        self.max_vocabulary_size = check_int(where + "max_vocabulary_size", max_vocabulary_size, -1)
        if self.max_vocabulary_size == 0:
            raise rejected(where + "max_vocabulary_size", 0, "an integer >= 1, or -1 for no bound")
        self.ev_size = check_int(where + "ev_size", ev_size, 1, MAX_VEC_SIZE)
        optimizer = _one_of(where, "opt_params", opt_params, opt_params_or_empty)
        if optimizer is not None and not isinstance(optimizer, OptParamsPy):
            raise rejected(where + "opt_params", optimizer, "what hugectr.CreateOptimizer returns")
        self.opt_params = optimizer
        self.vector_type = check_vector_type(where + "vector_type", vector_type)
        self.init_param = check_initializer(
            where + "init_param", _one_of(where, "init_param", init_param, init_param_or_empty)
        )

    def __repr__(self) -> str:
        return f"EmbeddingTableConfig({self.name!r}, {self.max_vocabulary_size}, {self.ev_size})"


def _one_of(where: str, name: str, value: T | None, other: T | None) -> T | None:
    """What an argument of two names is given by, which must not be both."""
    if value is not None and other is not None:
        raise InvalidArgument(
            f"{where}{name} and {name}_or_empty: found both, allowed: one of them, which are two "
            "names of one argument"
        )
    return other if value is None else value


def _items(name: str, value: Any, allowed: str) -> list[Any]:
    """Those of a list or an array: a text or a mapping is none."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise rejected(name, value, allowed)
    return list(value)


@dataclass(frozen=True)
class Lookup:
    """One look-up of a table: the vectors of the keys of one sparse input."""

    table: EmbeddingTableConfig
    bottom: str
    combiner: str


@dataclass(frozen=True)
class Top:
    """What a collection makes of look-ups.

    Attributes
    ----------
    name : str
    lookups : tuple of Lookup
    flat : bool
        (batch, sum of their widths), else (batch, slots, ev_size) of the only one.
    """

    name: str
    lookups: tuple[Lookup, ...]
    flat: bool


class EmbeddingCollectionConfig:
    """Tables that are looked up together, added to a model with ``Model.add``.

    Parameters
    ----------
    use_exclusive_keys : bool
        Whether no key is in two tables; accepted, tables are told apart anyway.
    comm_strategy : CommunicationStrategy
        Accepted: vectors travel by the bytes of each batch (``SparseEmbedding``'s exchange).

    Examples
    --------
    >>> table = EmbeddingTableConfig("goods", 10000, 16)  # doctest: +SKIP
    >>> collection = EmbeddingCollectionConfig()  # doctest: +SKIP
    >>> collection.embedding_lookup(table_config=table, bottom_name="history",
    ...                             top_name="history_vectors", combiner="mean")  # doctest: +SKIP
    """

    def __init__(
        self,
        use_exclusive_keys: bool = False,
        comm_strategy: CommunicationStrategy = CommunicationStrategy.Uniform,
    ) -> None:
        where = "EmbeddingCollectionConfig: "
        self.use_exclusive_keys = check_bool(where + "use_exclusive_keys", use_exclusive_keys)
        self.comm_strategy = check_enum(
            where + "comm_strategy", comm_strategy, CommunicationStrategy
        )
        self.tops: list[Top] = []
        self.shard_matrix: list[list[str]] | None = None
        self.strategies: dict[str, str] = {}  # table -> one of STRATEGIES
        self.compressions: dict[str, CompressionStrategy] = {}  # of tables that have one

    @property
    def tables(self) -> list[EmbeddingTableConfig]:
        """The tables, in the order of their first look-up."""
        found = {lookup.table.name: lookup.table for top in self.tops for lookup in top.lookups}
        return list(found.values())

    def embedding_lookup(
        self,
        table_config: EmbeddingTableConfig | Sequence[EmbeddingTableConfig],
        bottom_name: str | Sequence[str],
        top_name: str,
        combiner: str | Sequence[str],
    ) -> None:
        """Look a table up for the keys of a sparse input.

        Parameters
        ----------
        table_config : EmbeddingTableConfig, or list of them
            A table may be looked up any number of times: its rows are shared.
        bottom_name : str, or list of str
            Names of sparse inputs.
        top_name : str
            Name of the vectors: (batch, slots of the input, ev_size). Of lists there is one top,
            (batch, sum of ev_size), look-up by look-up.
        combiner : {"sum", "mean", "concat"}, or list of them
            "concat": a vector a key, in their order.
        """
        where = f"embedding_lookup {top_name!r}: "
        name = check_str(where + "top_name", top_name, empty=False)
        if isinstance(table_config, str):
            allowed = "a hugectr.EmbeddingTableConfig, or a list of them: not its name"
            raise rejected(where + "table_config", table_config, allowed)
        flat = isinstance(table_config, Sequence)
        tables = list(table_config) if isinstance(table_config, Sequence) else [table_config]
        bottoms = check_names(where + "bottom_name", bottom_name)
        combiners = check_names(where + "combiner", combiner)
        if not tables or not len(tables) == len(bottoms) == len(combiners):
            raise InvalidArgument(
                f"{where}found {len(tables)} tables, {len(bottoms)} bottoms and {len(combiners)} "
                "combiners, allowed: as many of each, at least one"
            )
        if name in (top.name for top in self.tops):
            raise rejected(where + "top_name", name, "a name that no other look-up has")
        known = {table.name: table for table in self.tables}
        lookups = []
        for table, bottom, how in zip(tables, bottoms, combiners, strict=True):
            if not isinstance(table, EmbeddingTableConfig):
                raise rejected(where + "table_config", table, "a hugectr.EmbeddingTableConfig")
            if known.setdefault(table.name, table) is not table:
                raise rejected(
                    where + "table_config", table, f"one table called {table.name!r}, not two"
                )
            if how not in COMBINERS:
                raise rejected(where + "combiner", how, f"one of {list(COMBINERS)}")
            lookups.append(Lookup(table, bottom, how))
        self.tops.append(Top(name, tuple(lookups), flat))

    def shard(
        self,
        shard_matrix: Sequence[Sequence[str]],
        shard_strategy: Sequence[tuple[str, Sequence[str]]],
        compression_strategy: Mapping[CompressionStrategy, Sequence[str]] | None = None,
    ) -> None:
        """Say which GPUs hold which tables. The model does not depend on it.

        Parameters
        ----------
        shard_matrix : list of list of str
            Names of the tables on each GPU.
        shard_strategy : list of (str, list of str)
            "mp" or "dp", and tables; each table once. "dp" is ``replicated``: all rows on every
            GPU. "mp" is ``one_device`` for a table of one GPU, and ``by_key`` for one of several:
            its rows are split over all GPUs, also those that do not list it.
        compression_strategy : dict of CompressionStrategy to list of str
            How vectors of "mp" tables travel: ``Reduction`` as sums of slots, ``Unique`` as
            distinct rows; the others by the bytes of each batch.
        """
        where = "EmbeddingCollectionConfig.shard: "
        names = [table.name for table in self.tables]

        def known(argument: str, tables: Any) -> list[str]:
            names_of = _items(where + argument, tables, "a list of table names")
            found = check_names(where + argument, list(map(str, names_of)))
            for name in found:
                if name not in names:
                    allowed = f"a table that is looked up: {names}{did_you_mean(name, names)}"
                    raise rejected(where + argument, name, allowed)
            return found

        gpus = _items(where + "shard_matrix", shard_matrix, "a list of table names for each GPU")
        matrix = [known(f"shard_matrix[{g}]", tables) for g, tables in enumerate(gpus)]
        strategies: dict[str, str] = {}
        pairs = "a list of (strategy, tables), such as [('mp', ['items'])]"
        for pair in _items(where + "shard_strategy", shard_strategy, pairs):
            if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
                raise rejected(where + "shard_strategy", shard_strategy, pairs)
            strategy, tables = pair
            if strategy not in STRATEGIES:
                raise rejected(where + "shard_strategy", strategy, "'mp' or 'dp'")
            for name in known("shard_strategy", tables):
                if name in strategies:
                    raise rejected(where + "shard_strategy", name, "each table under one strategy")
                strategies[name] = strategy
        for name in names:
            holders = sum(name in tables for tables in matrix)
            if name not in strategies:
                raise rejected(where + "shard_strategy", list(strategies), f"{name!r} as well")
            if holders == 0:
                raise rejected(where + "shard_matrix", matrix, f"{name!r} on at least one GPU")
            if strategies[name] == "dp" and holders < len(matrix):
                raise rejected(
                    where + "shard_matrix", matrix, f"{name!r} on every GPU, because it is 'dp'"
                )
        compressions: dict[str, CompressionStrategy] = {}
        asked: Any = compression_strategy if compression_strategy is not None else {}
        if not isinstance(asked, Mapping):
            allowed = "a dict of CompressionStrategy to a list of tables"
            raise rejected(where + "compression_strategy", asked, allowed)
        for kind, tables in asked.items():
            check_enum(where + "compression_strategy", kind, CompressionStrategy)
            for name in known("compression_strategy", tables):
                if compressions.setdefault(name, kind) is not kind:
                    raise rejected(where + "compression_strategy", name, "each table once")
        self.shard_matrix, self.strategies = matrix, strategies
        self.compressions = compressions

    def placement(self, table: str) -> Placement | None:
        """Where the rows of a table lie.

        Parameters
        ----------
        table : str
        """
        if self.shard_matrix is None:
            return None
        if self.strategies[table] == "dp":
            return Placement("replicated")
        holders = [g for g, tables in enumerate(self.shard_matrix) if table in tables]
        # A job of one device has all rows there, whatever the rule: that of any number is by key.
        if len(holders) == 1 and len(self.shard_matrix) > 1:
            return Placement("one_device", holders[0])
        return Placement("by_key")

    def log_placement(self) -> None:
        """Say how the tables are placed, where that is not as asked."""
        matrix = self.shard_matrix or []
        for name, strategy in self.strategies.items():
            holders = sum(name in tables for tables in matrix)
            if strategy == "mp" and 1 < holders < len(matrix):
                log.info(
                    f"EmbeddingCollectionConfig.shard: the rows of {name!r} are split over all "
                    f"{len(matrix)} GPUs, not over {holders} of them; the model does not depend "
                    "on it"
                )
