# SPDX-License-Identifier: Apache-2.0
"""The parts of a model out of the description in a checkpoint's manifest, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hugectr import _core
from hugectr.base.errors import DataError, InvalidArgument
from hugectr.checkpoints.description import Description, description_of
from hugectr.config.layers import ParsedLayers
from hugectr.spec.embedding import SparseEmbedding
from hugectr.spec.enums import Embedding_t, MetricsType, Optimizer_t
from hugectr.spec.input import DataReaderSparseParam, Input
from hugectr.spec.layers import DenseLayer
from hugectr.spec.optimizer import CreateOptimizer, OptParamsPy
from hugectr.spec.solver import Solver

if TYPE_CHECKING:
    from hugectr._core import EmbeddingSpec, LayerSpec, ModelSpec, SolverSpec

#: Keys of a slot at most: how many there may be was a setting of the reader's.
_MOST_KEYS = 1 << 20
#: Rows of a batch where the checkpoint does not say what the model was evaluated with.
BATCH = 2048


@dataclass(frozen=True)
class Parts:
    """What a model for prediction is made of.

    Attributes
    ----------
    solver : Solver
    input : Input
    embeddings : list of SparseEmbedding
    dense_layers : list of DenseLayer
        As compiled: automatic Slice layers are among them.
    opt_params : OptParamsPy
        Of no meaning: nothing trains.
    """

    solver: Solver
    input: Input
    embeddings: list[SparseEmbedding]
    dense_layers: list[DenseLayer]
    opt_params: OptParamsPy

    def session(self, layers: Sequence[LayerSpec], device: int = 0) -> _core.Session:
        """The model in the core, with a device of this process alone and no weights yet."""
        solver, model = self.specs(layers, device)
        return _core.Session(solver, None, model)

    def specs(self, layers: Sequence[LayerSpec], device: int = 0) -> tuple[SolverSpec, ModelSpec]:
        """Solver and model as the core takes them."""
        embeddings = [_of_one_device(embedding.to_spec()) for embedding in self.embeddings]
        solver: SolverSpec = {**self.solver.to_spec(), "vvgpu": [[device]], "metrics": []}
        return solver, {
            "input": self.input.to_spec(),
            "embeddings": embeddings,
            "layers": list(layers),
            "opt_params": self.opt_params.to_spec(),
            "trains": False,
        }


def _of_one_device(table: EmbeddingSpec) -> EmbeddingSpec:
    """A table without what a training said of its own devices, such as a graph file has it."""
    found: EmbeddingSpec = {
        **table,
        # A device holds what all of the training's devices held; the sizes are a budget too.
        "workspace_size_per_gpu_in_mb": 0,
        "max_vocabulary_size_per_gpu": 0,
        "slot_size_array": [],
        "direct": False,
        "placement": None,
        "placement_device": 0,
        "frequent": [],
    }
    found.pop("life", None)
    return found


def layer_specs(description: Description) -> list[LayerSpec]:
    """The compiled layers as the core takes them."""
    return [
        {
            "type": layer["type"],
            "bottoms": layer["inputs"],
            "tops": layer["outputs"],
            "attributes": layer["parameters"],
        }
        for layer in description["layers"]
    ]


def parts_of(where: str, description: Description, device: str, batch_size: int) -> Parts:
    """The parts that a description names.

    Parameters
    ----------
    where : str
        Of the checkpoint, for messages.
    description : dict
    device : {"auto", "cpu", "cuda"}
    batch_size : int
        Rows of an evaluation's batch.

    Raises
    ------
    DataError
        When this version does not have what it names.
    """
    i64_keys = description["keys"] == "int64"
    solver = prediction_solver(batch_size, device, i64_keys, description["precision"])
    try:
        label, dense = description["label"], description["dense"]
        sparse = [
            DataReaderSparseParam(
                one["name"], one.get("positions", _MOST_KEYS), False, one["slots"]
            )
            for one in description["inputs"]
        ]
        return Parts(
            solver,
            Input(
                label["dim"],
                label["name"],
                dense["dim"],
                dense["name"],
                sparse,
                group_name=label.get("group", ""),
            ),
            [_embedding(table) for table in description["tables"]],
            [DenseLayer.from_spec(spec) for spec in layer_specs(description)],
            CreateOptimizer(Optimizer_t.SGD),
        )
    except (InvalidArgument, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{where} is of a model that this version can not build ({error}): load it with the "
            "version that saved it"
        ) from error


def prediction_solver(
    batch_size: int, device: str = "auto", i64_keys: bool = True, precision: str = "float32"
) -> Solver:
    """Settings of a model that does not train: what training asks for is of no meaning."""
    mixed = precision != "float32"
    return Solver(
        batchsize=batch_size,
        batchsize_eval=batch_size,
        device=device,
        i64_input_key=i64_keys,
        use_mixed_precision=mixed,
        mixed_precision_type=precision if mixed else "float16",
        dynamic_loss_scaling=precision == "float16",
        metrics_spec={MetricsType.AUC: 2.0},
        seed=1,
    )


def parts_of_graph(graph: ParsedLayers, solver: Solver) -> Parts:
    """The parts that a graph file names; ``dense_layers`` as they are there."""
    return Parts(
        solver, graph.input, graph.embeddings, graph.dense, CreateOptimizer(Optimizer_t.SGD)
    )


@dataclass(frozen=True)
class _Built:
    """What a description is made from: parts, and what the core made of them."""

    solver: Solver
    input: Input
    embeddings: list[SparseEmbedding]
    opt_params: OptParamsPy
    session: _core.Session


def described(parts: Parts, session: _core.Session) -> Description:
    """What was built of a graph, as a checkpoint would describe it; its optimizers are not known.

    Parameters
    ----------
    parts : Parts
    session : _core.Session
        What ``parts.session`` returned.
    """
    found = description_of(
        _Built(parts.solver, parts.input, parts.embeddings, parts.opt_params, session)
    )
    tables = [table | {"optimizer": None} for table in found["tables"]]
    return found | {"optimizer": None, "tables": tables}


def _embedding(table: dict[str, object]) -> SparseEmbedding:
    kinds = {
        "Distributed": Embedding_t.DistributedSlotSparseEmbeddingHash,
        "Localized": Embedding_t.LocalizedSlotSparseEmbeddingHash,
    }
    found = SparseEmbedding(
        kinds[str(table["type"])],
        embedding_vec_size=table["vec_size"],  # type: ignore[arg-type]
        combiner=table["combiner"],  # type: ignore[arg-type]
        sparse_embedding_name=str(table["name"]),
        bottom_name=table["input"],  # type: ignore[arg-type]
        slot_size_array=table["slot_sizes"],  # type: ignore[arg-type]
        vector_type=str(table.get("vector_type", "float32")),
    )
    found.top_name = str(table.get("top", found.top_name))
    return found
