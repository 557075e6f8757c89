# SPDX-License-Identifier: Apache-2.0
"""The data of the examples: generated once, with a signal that is known."""

import json
from dataclasses import asdict
from pathlib import Path

from hugectr.data.planted import PlantedFiles, write_planted_norm

SLOTS = 8
DENSE = 5
FOLDER = Path(__file__).parent / "runs" / "planted"


def planted_files() -> PlantedFiles:
    """File lists of 65,536 training and 16,384 evaluation samples; made when missing."""
    note = FOLDER / "files.json"
    if note.exists():
        return PlantedFiles(**json.loads(note.read_text()))
    files = write_planted_norm(FOLDER, 65536, 16384, [50] * SLOTS, dense_dim=DENSE, strength=3.0)
    note.write_text(json.dumps(asdict(files)))
    return files


def one_slot_files() -> PlantedFiles:
    """The same with all keys of a sample in one slot, for ``criteo.json``."""
    folder = FOLDER.parent / "one_slot"
    note = folder / "files.json"
    if note.exists():
        return PlantedFiles(**json.loads(note.read_text()))
    files = write_planted_norm(
        folder, 65536, 16384, [400], hotness=8, dense_dim=DENSE, strength=3.0
    )
    note.write_text(json.dumps(asdict(files)))
    return files
