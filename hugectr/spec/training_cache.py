# SPDX-License-Identifier: Apache-2.0
"""The embedding training cache as scripts set it up.

In v3 it keeps on the GPUs the rows that a pass over one file of the data needs, and the others in
host memory or in files. Here tables grow: what a pass needs is there, and nothing has to go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hugectr.base.arguments import check_bool, check_enum, check_float, check_int, check_names
from hugectr.base.errors import InvalidArgument, rejected
from hugectr.spec.enums import TrainPSType_t


@dataclass(frozen=True)
class HMemCacheConfig:
    """What ``CreateHMemCache`` returns: host memory of a ``Cached`` table."""

    num_blocks: int
    target_hit_rate: float
    max_num_evict: int


def CreateHMemCache(num_blocks: int, target_hit_rate: float, max_num_evict: int) -> HMemCacheConfig:
    """Describe the host-memory cache of a ``Cached`` table; checked, and not used.

    Parameters
    ----------
    num_blocks : int
        Passes whose rows it may hold.
    target_hit_rate : float
        0 to 1.
    max_num_evict : int
        Rows that may be evicted at a time.
    """
    where = "CreateHMemCache: "
    return HMemCacheConfig(
        check_int(where + "num_blocks", num_blocks, 1),
        check_float(where + "target_hit_rate", target_hit_rate, 0.0, 1.0),
        check_int(where + "max_num_evict", max_num_evict, 0),
    )


@dataclass(frozen=True)
class EmbeddingTrainingCacheParams:
    """What ``CreateETC`` returns.

    Attributes
    ----------
    ps_types : tuple of TrainPSType_t
        One a table; none: there is no cache.
    sparse_models : tuple of str
        Saved tables that training begins with, one a table; none: it begins with empty ones.
    saved_to : tuple of str
        Folders that ``save_params_to_files`` writes the tables to as well, one a table; none: it
        writes its own files alone.
    of_any_tables : bool
        Whether there is a cache although ``ps_types`` says nothing: one of ``CreateMOS``.
    """

    ps_types: tuple[TrainPSType_t, ...] = ()
    sparse_models: tuple[str, ...] = ()
    saved_to: tuple[str, ...] = ()
    of_any_tables: bool = False

    @property
    def is_used(self) -> bool:
        """Whether there is a cache."""
        return bool(self.ps_types) or self.of_any_tables

    def check_tables(self, names: Sequence[str]) -> None:
        """Refuse a cache of another number of tables."""
        for what, given in (
            ("ps_types", self.ps_types),
            ("sparse_models", self.sparse_models),
            ("dest_sparse_models", self.saved_to),
        ):
            if given and len(given) != len(names):
                raise InvalidArgument(
                    f"CreateETC: {what} has {len(given)} entries, allowed: one for each of the "
                    f"{len(names)} embeddings {list(names)}"
                )


def CreateETC(
    ps_types: Sequence[TrainPSType_t] = (),
    sparse_models: Sequence[str] = (),
    local_paths: Sequence[str] = (),
    hmem_cache_configs: Sequence[HMemCacheConfig] = (),
    *,
    use_host_memory_ps: bool | None = None,
) -> EmbeddingTrainingCacheParams:
    """Describe the embedding training cache of a model.

    Parameters
    ----------
    ps_types : list of TrainPSType_t
        Where v3 keeps the rows of each table that are not on the GPUs: ``Staged`` in host memory,
        ``Cached`` in host memory and files. Here both are the growing table itself. Empty: no
        cache.
    sparse_models : list of str
        Folders (or files of 3.0) of saved tables, one an embedding, that training begins with; one
        that does not exist is an empty table. Empty: all are. ``Model.save_params_to_files``
        writes the trained tables there too, so that the next training goes on with them.
    local_paths : list of str
        Folders for the files of ``Cached``; not used.
    hmem_cache_configs : list of what CreateHMemCache returns
        Of ``Cached``: one for all, or one each; not used.
    use_host_memory_ps : bool, optional
        3.2.1, instead of ``ps_types``: one for all tables; not used.

    Returns
    -------
    EmbeddingTrainingCacheParams
        For ``Model``.

    Raises
    ------
    InvalidArgument
        Names the argument, what was found and what is allowed.
    """
    where = "CreateETC: "
    if use_host_memory_ps is not None and not ps_types:
        return CreateMOS(use_host_memory_ps=use_host_memory_ps, sparse_models=sparse_models)
    kinds = tuple(
        check_enum(f"{where}ps_types[{i}]", kind, TrainPSType_t) for i, kind in enumerate(ps_types)
    )
    models = tuple(check_names(where + "sparse_models", list(sparse_models)))
    paths = check_names(where + "local_paths", list(local_paths))
    cached = sum(kind is TrainPSType_t.Cached for kind in kinds)
    for i, config in enumerate(hmem_cache_configs):
        if not isinstance(config, HMemCacheConfig):
            raise rejected(
                f"{where}hmem_cache_configs[{i}]", config, "what hugectr.CreateHMemCache returns"
            )
    if cached and not paths:
        raise rejected(where + "local_paths", [], "a folder a process, for tables that are Cached")
    if cached and len(hmem_cache_configs) not in (1, cached, len(kinds)):
        raise rejected(
            where + "hmem_cache_configs",
            len(hmem_cache_configs),
            f"one for all, or one for each of the {cached} tables that are Cached, or of all",
        )
    if models and not kinds:
        raise rejected(where + "ps_types", [], "one for each of the sparse_models")
    return EmbeddingTrainingCacheParams(kinds, models, models)


def CreateMOS(
    train_from_scratch: bool = True,
    trained_sparse_models: Sequence[str] = (),
    dest_sparse_models: Sequence[str] = (),
    *,
    use_host_memory_ps: bool = True,
    sparse_models: Sequence[str] = (),
) -> EmbeddingTrainingCacheParams:
    """Describe the model oversubscriber of 3.1 and 3.2, which ``CreateETC`` came after.

    Parameters
    ----------
    train_from_scratch : bool
        3.1: whether tables begin empty; not used, ``trained_sparse_models`` says it.
    trained_sparse_models : list of str
        3.1: saved tables that training begins with, one an embedding.
    dest_sparse_models : list of str
        3.1: folders that ``Model.save_params_to_files`` writes the tables to, one an embedding.
    use_host_memory_ps : bool
        3.2: not used, as ``ps_types`` of ``CreateETC``.
    sparse_models : list of str
        3.2: as that of ``CreateETC``.

    Returns
    -------
    EmbeddingTrainingCacheParams
        For ``Model``.
    """
    where = "CreateMOS: "
    check_bool(where + "train_from_scratch", train_from_scratch)
    check_bool(where + "use_host_memory_ps", use_host_memory_ps)
    trained = tuple(check_names(where + "trained_sparse_models", list(trained_sparse_models)))
    saved = tuple(check_names(where + "dest_sparse_models", list(dest_sparse_models)))
    models = tuple(check_names(where + "sparse_models", list(sparse_models)))
    if models and (trained or saved):
        allowed = "empty: trained_sparse_models and dest_sparse_models say which"
        raise rejected(where + "sparse_models", list(models), allowed)
    return EmbeddingTrainingCacheParams(
        sparse_models=models or trained, saved_to=models or saved, of_any_tables=True
    )
