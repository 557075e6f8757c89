# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: a model's state into files and back. Private; the public API is ``Model``.

What is asked of a model is a ``TrainingState`` (``state``).
Saving: ``native`` takes the state, ``rows`` reads a table's rows, ``folder`` writes, publishes and
verifies, in ``chunks`` with checksums, by ``direct_file`` past the page cache; ``manifest`` says
what lies where, ``delta`` what a delta builds on, ``description`` which model it is.
Resuming: ``manifest_schema`` and ``schema`` check what the manifest says, ``regular_file`` opens
nothing else; ``restore_plan`` (or ``restore_partial``, for another model) works out what the model
will be, ``restore`` makes it that or leaves it, ``load`` deals chunks to the owners of their rows.
Without a model: ``merge`` puts shards and deltas in one order, for ``reshard``, ``export`` (to
safetensors or NumPy) and ``original_convert`` (to the original layout and back); ``inspect`` looks.
The original layout: ``original_files`` names its files and writes them; ``original_save`` and
``original_load`` are for a running job of several processes, ``row_intervals`` cuts their tables.
"""

from hugectr.checkpoints.delta import Base
from hugectr.checkpoints.folder import Snapshot, verify, write
from hugectr.checkpoints.manifest import (
    MANIFEST,
    checkpoint_at,
    published,
    read_manifest,
    step_folder,
)
from hugectr.checkpoints.native import Saver, latest, take
from hugectr.checkpoints.restore import give, give_weights
from hugectr.checkpoints.restore_plan import check_same_weights
from hugectr.checkpoints.schema_files import read as read_schema
from hugectr.checkpoints.state import TrainingState
from hugectr.checkpoints.verified_copy import verified_copy

__all__ = [
    "MANIFEST",
    "Base",
    "Saver",
    "Snapshot",
    "TrainingState",
    "check_same_weights",
    "checkpoint_at",
    "give",
    "give_weights",
    "latest",
    "published",
    "read_manifest",
    "read_schema",
    "step_folder",
    "take",
    "verified_copy",
    "verify",
    "write",
]
