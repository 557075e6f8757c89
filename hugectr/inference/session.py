# SPDX-License-Identifier: Apache-2.0
"""An inference session: a graph file and weights of the original layout as a predictor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from hugectr import _core
from hugectr.base.arguments import check_bool, check_enum, check_int, check_str
from hugectr.base.errors import DataError, rejected
from hugectr.config.graph import read_graph
from hugectr.config.layers import ParsedLayers
from hugectr.data.arrays import MemoryDataset
from hugectr.data.file_samples import first_file_samples
from hugectr.data.inspect_columns import RawShape
from hugectr.data.patterns import raw_paths
from hugectr.data.regular_file import regular_file_size
from hugectr.inference.default_vectors import DefaultVectors
from hugectr.inference.parameters import InferenceParams
from hugectr.inference.vectors import csr_of_request
from hugectr.model.original_files import OriginalFiles
from hugectr.processes.group import ProcessGroup
from hugectr.processes.solo import SoloGroup
from hugectr.serving.rebuilt import Parts, parts_of_graph, prediction_solver
from hugectr.spec.enums import Check_t, DataReaderType_t
from hugectr.spec.input import Input

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class _Loading:
    """What files of the original layout ask of a model."""

    session: _core.Session
    table_names: list[str]
    i64_keys: bool
    group: ProcessGroup


class InferenceSession:
    """Predicts by a model out of files; any number of threads may ask it.

    Parameters
    ----------
    model_config_path : path
        The graph that ``Model.graph_to_json`` wrote, or a config.
    inference_params : InferenceParams

    Raises
    ------
    InvalidArgument
        When the graph can not be read, or the number of files is not that of its tables.
    DataError
        When a file is missing or of another model.
    """

    def __init__(self, model_config_path: str | Path, inference_params: Any) -> None:
        if not isinstance(inference_params, InferenceParams):
            allowed = "a hugectr.inference.InferenceParams"
            raise rejected("CreateInferenceSession: params", inference_params, allowed)
        self._params = inference_params
        self._graph, _ = read_graph(model_config_path)
        parts = _parts(self._graph, inference_params)
        on_gpu = parts.solver.resolved_device() == "cuda"
        device = inference_params.device_id if on_gpu else 0
        layers = [layer.to_spec() for layer in self._graph.dense]
        self._session = parts.session(layers, device)
        names = [table.sparse_embedding_name for table in parts.embeddings]
        files = inference_params.sparse_model_files
        if len(files) != len(names):
            allowed = f"a file for each of the {len(names)} tables"
            raise rejected("InferenceParams: sparse_model_files", list(files), allowed)
        keys = parts.solver.i64_input_key
        self._files = OriginalFiles(_Loading(self._session, names, keys, SoloGroup()))
        self._files.load_dense_weights(inference_params.dense_model_file)
        self._defaults = DefaultVectors(
            self._graph.input, self._graph.embeddings, inference_params.default_value_for_each_table
        )
        self._whole = True
        self._load_tables()
        self._predictor = _core.Predictor(self._session)

    @overload
    def predict(
        self,
        num_batches: int,
        source: str,
        data_reader_type: DataReaderType_t,
        check_type: Check_t,
        slot_size_array: Sequence[int] = ...,
    ) -> Floats: ...
    @overload
    def predict(
        self,
        dense_feature: Sequence[float],
        embeddingcolumns: Sequence[int],
        row_ptrs: Sequence[int],
        i64_input_key: bool = ...,
    ) -> Floats: ...
    def predict(self, *args: Any, **kwargs: Any) -> Floats:
        """Predict samples of a file, or samples that are given as lists.

        Parameters
        ----------
        num_batches : int
            Batches of ``max_batchsize`` samples, from the first sample of the source on; fewer
            where it ends before.
        source : str
            A Norm file or file list, a Raw file, or Parquet data.
        data_reader_type : DataReaderType_t
        check_type : Check_t
            Norm files say themselves whether they carry checksums.
        slot_size_array : list of int
            What is added to the keys of a slot is the sum of the sizes of the slots before it.
        dense_feature : list of float
            Dense features of n samples, one sample after the other.
        embeddingcolumns : list of int
            Keys of the first table for all samples, then those of the next.
        row_ptrs : list of int
            For each table n * slots + 1 numbers: where in its keys each slot of each sample begins
            and the last ends.
        i64_input_key : bool
            Of no meaning: keys are taken as they are.

        Returns
        -------
        ndarray of float32, (n,)
            Probabilities; (n, ...) where a sample has several.

        Raises
        ------
        InvalidArgument
            When lists do not fit together or the model's inputs.
        DataError
            When a file is damaged, or holds other samples.
        """
        of_file = "num_batches" in kwargs or (
            len(args) > 0 and isinstance(args[0], int | np.integer)
        )
        return self._of_file(*args, **kwargs) if of_file else self._of_lists(*args, **kwargs)

    def _of_file(
        self,
        num_batches: int,
        source: str,
        data_reader_type: DataReaderType_t,
        check_type: Check_t,
        slot_size_array: Sequence[int] = (),
    ) -> Floats:
        data = self._read(
            "predict", num_batches, source, data_reader_type, check_type, slot_size_array
        )
        return self._predicted(data.samples, data.dense, self._sparse(data))

    def _of_lists(
        self,
        dense_feature: Sequence[float],
        embeddingcolumns: Sequence[int],
        row_ptrs: Sequence[int],
        i64_input_key: bool = False,
    ) -> Floats:
        check_bool("predict: i64_input_key", i64_input_key)
        count, dense, sparse = csr_of_request(
            self._graph.input, self._graph.embeddings, dense_feature, embeddingcolumns, row_ptrs
        )
        names = [param.top_name for param in self._graph.input.sparse]
        known = [self._defaults.known_only(*one) for one in zip(names, sparse, strict=True)]
        return self._predicted(count, dense, known)

    def evaluate(
        self,
        num_batches: int,
        source: str,
        data_reader_type: DataReaderType_t,
        check_type: Check_t,
        slot_size_array: Sequence[int] = (),
    ) -> float:
        """AUC over the samples of a file; the arguments are those of ``predict``."""
        data = self._read(
            "evaluate", num_batches, source, data_reader_type, check_type, slot_size_array
        )
        self._check_whole()
        evaluator = _core.LivePredictor(self._session, self._params.max_batchsize)
        found = evaluator.evaluate(
            data.samples, data.label, data.dense, self._sparse(data), ["AUC"], None
        )
        return float(dict(found)["AUC"])

    def refresh_embedding_cache(self) -> None:
        """Read the tables again, from the files that they came from.

        No thread may predict at the same time.

        Raises
        ------
        InvalidArgument, DataError
            When files are missing or damaged. The session predicts as before; where other tables
            have been replaced by then, it refuses to until a refresh succeeds.
        """
        self._load_tables()

    def _load_tables(self) -> None:
        names = [table.sparse_embedding_name for table in self._graph.embeddings]
        for name, file in zip(names, self._params.sparse_model_files, strict=True):
            self._files.load_sparse_weights({name: file})  # one that fails leaves its table alone
            self._whole = False
        self._defaults.put_into(self._session.tables())
        self._whole = True

    def _check_whole(self) -> None:
        if not self._whole:
            raise DataError(
                "the session's tables are of unlike files: refresh_embedding_cache failed when "
                "some had been read; call it again when all are whole, or make another session"
            )

    def _predicted(self, count: int, dense: Floats, sparse: list[tuple[Any, Any]]) -> Floats:
        self._check_whole()
        batch = min(self._params.max_batchsize, max(count, 1))
        return self._predictor.predict(count, dense, sparse, "probability", batch)

    def _sparse(self, data: MemoryDataset) -> list[tuple[Any, Any]]:
        names = [param.top_name for param in self._graph.input.sparse]
        return [self._defaults.known_only(name, data.sparse[name]) for name in names]

    def _read(
        self,
        where: str,
        num_batches: int,
        source: str,
        data_reader_type: DataReaderType_t,
        check_type: Check_t,
        slot_size_array: Sequence[int],
    ) -> MemoryDataset:
        batches = check_int(f"{where}: num_batches", num_batches, 1)
        check_str(f"{where}: source", source, empty=False)
        kind = check_enum(f"{where}: data_reader_type", data_reader_type, DataReaderType_t)
        check_enum(f"{where}: check_type", check_type, Check_t)
        inputs = self._graph.input
        form = "Raw" if kind is DataReaderType_t.RawAsync else kind.name
        reader = self._graph.reader
        floats = reader is not None and reader.float_label_dense
        return first_file_samples(
            source,
            form,
            inputs.label_dim,
            inputs.dense_dim,
            [(param.top_name, param.slot_num) for param in inputs.sparse],
            batches * self._params.max_batchsize,
            i64=self._params.i64_input_key,
            raw=_raw_shape(inputs, source, floats) if form == "Raw" else None,
            slot_size_array=slot_size_array,
        )


def _raw_shape(inputs: Input, source: str, floats: bool) -> RawShape:
    """One key a slot if the file is of such samples, else ``nnz_per_slot`` of them."""
    hotness = tuple(nnz for param in inputs.sparse for nnz in param.nnz_per_slot)
    one = RawShape(inputs.label_dim, inputs.dense_dim, (1,) * len(hotness), floats)
    each = 4 * one.words(one.hotness)
    fits = all(regular_file_size(path) % each == 0 for path in raw_paths(source))
    return one if fits else replace(one, hotness=hotness)


def _parts(graph: ParsedLayers, params: InferenceParams) -> Parts:
    precision = "float16" if params.use_mixed_precision else "float32"
    solver = prediction_solver(
        params.max_batchsize, i64_keys=params.i64_input_key, precision=precision
    )
    return parts_of_graph(graph, solver)


#: The name scripts use.
CreateInferenceSession = InferenceSession
