# SPDX-License-Identifier: Apache-2.0
"""What an inference session is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from hugectr.base.arguments import check_bool, check_float, check_int, check_names, check_str
from hugectr.base.keywords import named_keywords
from hugectr.base.no_effect import warn_given

_ON_DEVICE = "the tables are on the device as a whole"
_NO_SERVERS = "the tables come from the files, and no parameter server is asked"
_POOL = "any number of threads may ask the session"
_WITHOUT_EFFECT = {
    "use_algorithm_search": "predictions take the algorithms that evaluations take",
    "use_cuda_graph": "predictions are submitted kernel by kernel",
    "number_of_worker_buffers_in_pool": _POOL,
    "number_of_refresh_buffers_in_pool": _POOL,
    "cache_refresh_percentage_per_iteration": _ON_DEVICE,
    "cpu_memory_db": _NO_SERVERS,
    "distributed_db": _NO_SERVERS,
    "persistent_db": _NO_SERVERS,
    "update_source": _NO_SERVERS,
}


@named_keywords("inference.InferenceParams")
@dataclass(frozen=True)
class InferenceParams:
    """Settings of an inference session.

    Parameters
    ----------
    model_name : str
        Of no meaning here.
    max_batchsize : int
        Samples that are predicted together; also the batch of ``predict(num_batches, ...)``.
    hit_rate_threshold, use_gpu_embedding_cache, cache_size_percentage
        Of the cache of the original; here tables are on the device as a whole.
    dense_model_file : str
        What ``save_params_to_files`` wrote: ``<prefix>_dense_<iter>.model``.
    sparse_model_files : list of str
        ``<prefix><i>_sparse_<iter>.model``, one a table.
    device_id : int
        The GPU, where there is one.
    i64_input_key : bool
        Keys of Norm files are int64.
    use_mixed_precision : bool
        Compute in float16.
    scaler : float
        Of no meaning: nothing trains.
    deployed_devices : list of int
        Only ``device_id`` is used.
    default_value_for_each_table : list of float
        What every number of the vector is of keys that training never saw: one a table, or one for
        all. Other than 0: a table of n rows takes n + 1, tables that read the same input those of
        all of them, and keys are looked at in Python before they are looked up.
    use_algorithm_search, use_cuda_graph, number_of_worker_buffers_in_pool, \
number_of_refresh_buffers_in_pool, cache_refresh_percentage_per_iteration, cpu_memory_db, \
distributed_db, persistent_db, update_source
        Accepted and without effect, with one warning that says why.

    Raises
    ------
    InvalidArgument
        A ValueError that names the argument, what was found and what is allowed.
    """

    model_name: str
    max_batchsize: int
    hit_rate_threshold: float
    dense_model_file: str
    sparse_model_files: Sequence[str]
    device_id: int
    use_gpu_embedding_cache: bool
    cache_size_percentage: float
    i64_input_key: bool
    use_mixed_precision: bool = False
    scaler: float = 1.0
    use_algorithm_search: bool = True
    use_cuda_graph: bool = True
    number_of_worker_buffers_in_pool: int = 2
    number_of_refresh_buffers_in_pool: int = 1
    cache_refresh_percentage_per_iteration: float = 0.1
    deployed_devices: Sequence[int] = (0,)
    default_value_for_each_table: Sequence[float] = (0.0,)
    cpu_memory_db: Any = None
    distributed_db: Any = None
    persistent_db: Any = None
    update_source: Any = None

    def __post_init__(self) -> None:
        where = "InferenceParams: "
        check_str(where + "model_name", self.model_name)
        check_int(where + "max_batchsize", self.max_batchsize, 1)
        check_float(where + "hit_rate_threshold", self.hit_rate_threshold, 0.0, 1.0)
        check_str(where + "dense_model_file", self.dense_model_file, empty=False)
        files = check_names(where + "sparse_model_files", self.sparse_model_files)
        object.__setattr__(self, "sparse_model_files", files)
        check_int(where + "device_id", self.device_id, 0)
        check_float(where + "cache_size_percentage", self.cache_size_percentage, 0.0)
        for name in (
            "use_gpu_embedding_cache",
            "i64_input_key",
            "use_mixed_precision",
            "use_algorithm_search",
            "use_cuda_graph",
        ):
            check_bool(where + name, getattr(self, name))
        name = where + "default_value_for_each_table"
        given = enumerate(self.default_value_for_each_table)
        values = tuple(check_float(f"{name}[{i}]", value) for i, value in given)
        object.__setattr__(self, "default_value_for_each_table", values)
        defaults = {item.name: item.default for item in fields(self)}
        warn_given("InferenceParams", vars(self), defaults, _WITHOUT_EFFECT)
