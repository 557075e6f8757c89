# SPDX-License-Identifier: Apache-2.0
"""The model that a config file describes."""

from dataclasses import replace

from hugectr.base.errors import rejected
from hugectr.config.config_file import Config
from hugectr.config.json_reader import Nothing
from hugectr.model.model import Model
from hugectr.spec.enums import TrainPSType_t
from hugectr.spec.training_cache import CreateETC


def describe_model(config: Config, unbounded: bool = False) -> Model:
    """The model before compile().

    Parameters
    ----------
    config : Config
    unbounded : bool
        Its tables may hold any number of rows, as with an embedding training cache.

    Raises
    ------
    InvalidArgument
        When the config names no training data, or settings do not fit together.
    """
    reader = config.layers.reader
    if reader is None:
        raise rejected("layers[0].source", Nothing(), "the path of a file list")
    solver = config.solver.to_solver(config.optimizer.schedule, config.model_name)
    tables = len(config.layers.embeddings) if unbounded else 0
    files = config.solver.embedding_files if unbounded else []  # not all need exist
    cache = CreateETC([TrainPSType_t.Staged] * tables, files)
    cache = replace(cache, saved_to=())  # v3.0 leaves the files that it begins with as they are
    model = Model(solver, reader, config.optimizer, cache)
    model.add_all(config.layers)
    return model


def build_model(config: Config, unbounded: bool = False) -> Model:
    """A compiled model with the weights that the config's solver names loaded.

    Parameters
    ----------
    config : Config
    unbounded : bool
        As of ``describe_model``.

    Raises
    ------
    InvalidArgument
        When the config names no training data, or settings do not fit together.
    """
    model, settings = describe_model(config, unbounded), config.solver
    model.compile()
    if settings.model_file:
        model.load_dense_weights(settings.model_file)
    if settings.dense_opt_states_file:
        model.load_dense_optimizer_states(settings.dense_opt_states_file)
    if settings.embedding_files and not unbounded:
        model.load_sparse_weights(settings.embedding_files)
    if settings.sparse_opt_states_file:
        model.load_sparse_optimizer_states(settings.sparse_opt_states_file)
    return model
