# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E402
"""Training of click-through-rate and ranking models with large embedding tables.

Build a model with ``CreateSolver``, ``DataReaderParams``, ``CreateOptimizer`` and ``Model``, then
``add`` an ``Input``, ``SparseEmbedding`` and ``DenseLayer`` objects, ``compile`` and ``fit``; or
run a JSON config with ``solver_parser_helper`` and ``Session``.
"""

from hugectr.base.interruption import quiet_until_loaded

quiet_until_loaded()

from hugectr.base.processor import require_features

# Before the compiled parts: on an older processor they would die of an illegal instruction.
require_features()

from hugectr.base.blas_threads import loaded_without_threads

with loaded_without_threads():
    from hugectr._core import version as _version

from typing import TYPE_CHECKING

from hugectr import callbacks, cuda, data, interop, tools
from hugectr.base.errors import (
    CommError,
    DataError,
    DeviceError,
    InvalidArgument,
    NonFiniteLoss,
    OutOfMemory,
)
from hugectr.base.lazy import lazy_names
from hugectr.callbacks.training_callback import TrainingCallback
from hugectr.data.data_source import DataSourceParams, DataSourceType_t, FileSystemType_t
from hugectr.spec import optimizer
from hugectr.spec.embedding import SparseEmbedding
from hugectr.spec.embedding_collection import EmbeddingCollectionConfig, EmbeddingTableConfig
from hugectr.spec.enums import (
    Activation_t,
    Alignment_t,
    AllReduceAlgo,
    Check_t,
    CommunicationStrategy,
    CommunicationType,
    CompressionStrategy,
    DataReaderSparse_t,
    DataReaderType_t,
    DeviceLayout,
    Distribution_t,
    Embedding_t,
    Error_t,
    FcPosition_t,
    GroupLayer_t,
    HybridEmbeddingType,
    Initializer_t,
    Layer_t,
    LrPolicy_t,
    MetricsRawType,
    MetricsType,
    Optimizer_t,
    PowerLaw_t,
    Regularizer_t,
    SourceType_t,
    Tensor_t,
    TrainPSType_t,
    Update_t,
)
from hugectr.spec.hybrid import HybridEmbeddingParam
from hugectr.spec.initializers import Sinusoidal, Uniform
from hugectr.spec.input import DataReaderSparseParam, Input
from hugectr.spec.layer_parameters import DenseLayerComputeConfig
from hugectr.spec.layers import DenseLayer, GroupDenseLayer
from hugectr.spec.memory import Memory
from hugectr.spec.optimizer import (
    CreateOptimizer,
    LearningRateScheduler,
    OptParamsPy,
)
from hugectr.spec.placement import Placement
from hugectr.spec.reader import DataReaderParams
from hugectr.spec.reader_formats import AsyncParam
from hugectr.spec.session_solver import SessionSolver, solver_parser_helper
from hugectr.spec.solver import CreateSolver, Solver
from hugectr.spec.training_cache import CreateETC, CreateHMemCache, CreateMOS

if TYPE_CHECKING:
    from hugectr import export, inference, models
    from hugectr.config.config_file import SolverParser, get_learning_rate_scheduler
    from hugectr.estimator.classifier import CTRClassifier
    from hugectr.estimator.regressor import CTRRegressor
    from hugectr.model.model import Model, ModelPerfExt
    from hugectr.model.session import Session
    from hugectr.serving.load import load
    from hugectr.serving.prediction_model import PredictionModel

# What most of the package or pyarrow comes with is loaded when it is used.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "hugectr.export": (),
        "hugectr.inference": (),
        "hugectr.models": (),
        "hugectr.config.config_file": ("SolverParser", "get_learning_rate_scheduler"),
        "hugectr.estimator.classifier": ("CTRClassifier",),
        "hugectr.estimator.regressor": ("CTRRegressor",),
        "hugectr.model.model": ("Model", "ModelPerfExt"),
        "hugectr.model.session": ("Session",),
        "hugectr.serving.load": ("load",),
        "hugectr.serving.prediction_model": ("PredictionModel",),
    },
)

__version__ = _version()

__all__ = [
    "Activation_t",
    "Alignment_t",
    "AllReduceAlgo",
    "AsyncParam",
    "CTRClassifier",
    "CTRRegressor",
    "Check_t",
    "CommError",
    "CommunicationStrategy",
    "CommunicationType",
    "CompressionStrategy",
    "CreateETC",
    "CreateHMemCache",
    "CreateMOS",
    "CreateOptimizer",
    "CreateSolver",
    "DataError",
    "DataReaderParams",
    "DataReaderSparseParam",
    "DataReaderSparse_t",
    "DataReaderType_t",
    "DataSourceParams",
    "DataSourceType_t",
    "DenseLayer",
    "DenseLayerComputeConfig",
    "DeviceError",
    "DeviceLayout",
    "Distribution_t",
    "EmbeddingCollectionConfig",
    "EmbeddingTableConfig",
    "Embedding_t",
    "Error_t",
    "FcPosition_t",
    "FileSystemType_t",
    "GroupDenseLayer",
    "GroupLayer_t",
    "HybridEmbeddingParam",
    "HybridEmbeddingType",
    "Initializer_t",
    "Input",
    "InvalidArgument",
    "Layer_t",
    "LearningRateScheduler",
    "LrPolicy_t",
    "Memory",
    "MetricsRawType",
    "MetricsType",
    "Model",
    "ModelPerfExt",
    "NonFiniteLoss",
    "OptParamsPy",
    "Optimizer_t",
    "OutOfMemory",
    "Placement",
    "PowerLaw_t",
    "PredictionModel",
    "Regularizer_t",
    "Session",
    "SessionSolver",
    "Sinusoidal",
    "Solver",
    "SolverParser",
    "SourceType_t",
    "SparseEmbedding",
    "Tensor_t",
    "TrainPSType_t",
    "TrainingCallback",
    "Uniform",
    "Update_t",
    "__version__",
    "callbacks",
    "cuda",
    "data",
    "export",
    "get_learning_rate_scheduler",
    "inference",
    "interop",
    "load",
    "models",
    "optimizer",
    "solver_parser_helper",
    "tools",
]
