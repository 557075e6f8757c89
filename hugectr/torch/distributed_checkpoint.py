# SPDX-License-Identifier: Apache-2.0
"""Tables in checkpoints of torch.distributed.checkpoint."""

from __future__ import annotations

import os
from typing import Any

from hugectr.base.errors import InvalidArgument
from hugectr.torch.collection import Collection
from hugectr.torch.outside_of_torch import check_collection

_NAME = "hugectr_checkpoint"


class _Unread:
    """What stands for the path of a native checkpoint until it is read."""

    def __reduce__(self) -> Any:
        raise InvalidArgument(
            "tables_to_load() is for torch.distributed.checkpoint.load; save takes tables_to_save()"
        )


class _ToSave:
    def __init__(self, collection: Collection, folder: str | os.PathLike[str]) -> None:
        self._collection, self._folder = collection, folder

    def state_dict(self) -> dict[str, Any]:
        return {_NAME: os.fspath(self._collection.save(self._folder))}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        raise InvalidArgument(
            "tables_to_save() is for torch.distributed.checkpoint.save; load takes tables_to_load()"
        )


class _ToLoad:
    def __init__(self, collection: Collection) -> None:
        self._collection = collection

    def state_dict(self) -> dict[str, Any]:
        return {_NAME: _Unread()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        path = state.get(_NAME)
        if not isinstance(path, str):
            raise InvalidArgument(
                f"a checkpoint of torch.distributed has no tables of hugectr: {path!r}"
            )
        self._collection.load(path)


def tables_to_save(collection: Collection, folder: str | os.PathLike[str]) -> Any:
    """What ``torch.distributed.checkpoint.save`` is given for the tables of a collection.

    Each process writes its rows to a native checkpoint, of which that of torch then has the path.
    Collective.

    Parameters
    ----------
    collection : EmbeddingBag, EmbeddingBagCollection or EmbeddingCollection
    folder : path-like
        Of the native checkpoints; all processes see it.

    Returns
    -------
    object
        Of torch's ``Stateful`` protocol.

    Examples
    --------
    >>> state = {"dense": head.state_dict(), "tables": ht.tables_to_save(bags, "tables")}
    >>> torch.distributed.checkpoint.save(state, checkpoint_id="step-100")
    """
    check_collection("tables_to_save", collection)
    return _ToSave(collection, folder)


def tables_to_load(collection: Collection) -> Any:
    """What ``torch.distributed.checkpoint.load`` is given for the tables of a collection.

    Their rows are replaced by those that ``tables_to_save`` has saved, by any number of processes.
    Collective.

    Parameters
    ----------
    collection : EmbeddingBag, EmbeddingBagCollection or EmbeddingCollection

    Returns
    -------
    object
        Of torch's ``Stateful`` protocol.
    """
    check_collection("tables_to_load", collection)
    return _ToLoad(collection)
