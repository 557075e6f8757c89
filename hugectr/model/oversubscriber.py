# SPDX-License-Identifier: Apache-2.0
"""The model oversubscriber of the older API, which the embedding training cache came after."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hugectr.model.model import Model


class ModelOversubscriber:
    """What ``Session.get_model_oversubscriber`` returns.

    Parameters
    ----------
    model : Model
        With an embedding training cache.
    """

    def __init__(self, model: Model) -> None:
        self._model = model

    def store(self, snapshot_file_list: Sequence[str | Path]) -> None:
        """Write the tables: a folder each, in the model's order, as ``save_params_to_files`` does.

        Parameters
        ----------
        snapshot_file_list : list of path
        """
        self._model.save_sparse_weights(snapshot_file_list)

    def update(self, keyset_file: str | Path | Sequence[str | Path]) -> None:
        """Make ready for a pass over the keys of files (``EmbeddingTrainingCache.update``)."""
        self._model.get_embedding_training_cache().update(keyset_file)
