# SPDX-License-Identifier: Apache-2.0
"""The data of the examples that read files: generated once with a signal that is known, or Criteo's
tab-separated files, converted once."""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from arguments import ARGUMENTS
from generated import day

import hugectr
from hugectr.data.criteo import convert
from hugectr.data.planted import PlantedFiles, write_planted_norm

REAL = ARGUMENTS.data is not None
SLOTS, DENSE = (26, 13) if REAL else (8, 5)
#: Of a table, MB.
WORKSPACE = 2048 if REAL else 4
#: What the solvers share; keys of converted files are of 64 bits.
SIZES = {"batchsize": 1024, "batchsize_eval": 1024, "seed": ARGUMENTS.seed, "i64_input_key": REAL}
FOLDER = Path(__file__).parent / "runs" / "planted"


@dataclass(frozen=True)
class ClickFiles:
    """File lists, how many batches an evaluation has, and what its line ends with."""

    train: str
    test: str
    batches: int
    beside: str = ""


def click_files() -> ClickFiles:
    """The planted files; with ``--data TRAIN EVAL`` those that Criteo's are converted to."""
    if not REAL:
        planted = planted_files()
        beside = f"; the hidden signal itself reaches {planted.ceiling:.4f}"
        return ClickFiles(planted.train, planted.test, 16, beside)
    folder = FOLDER.parent / "criteo"
    note = folder / "files.json"
    if not note.exists() or json.loads(note.read_text())[0] != ARGUMENTS.data:
        if len(ARGUMENTS.data) != 2:
            sys.exit(f"--data takes two files, TRAIN and EVAL: {len(ARGUMENTS.data)} given")
        train, evaluation = ARGUMENTS.data
        found = convert([train], folder, evaluation=[evaluation], format="norm")
        files = ClickFiles(found.source, found.eval_source, max(1, found.eval_rows // 1024))
        note.write_text(json.dumps([ARGUMENTS.data, asdict(files)]))
    return ClickFiles(**json.loads(note.read_text())[1])


def train_and_report(model: hugectr.Model, files: ClickFiles, steps: int) -> None:
    """Train, evaluate, and print the AUC."""
    steps = ARGUMENTS.steps or steps
    model.fit(max_iter=steps, display=100, eval_interval=steps + 1, snapshot=0)
    for _ in range(files.batches):
        model.eval()
    print(f"evaluation AUC {dict(model.get_eval_metrics())['AUC']:.4f}{files.beside}")


def planted_files() -> PlantedFiles:
    """File lists of 262,144 training and 16,384 evaluation samples; made when missing."""
    note = FOLDER / "files.json"
    if note.exists():
        return PlantedFiles(**json.loads(note.read_text()))
    files = write_planted_norm(FOLDER, 262144, 16384, [50] * 8, dense_dim=5, strength=3.0)
    note.write_text(json.dumps(asdict(files)))
    return files


def one_slot_files() -> PlantedFiles:
    """The same with all keys of a sample in one slot, for ``criteo.json``."""
    folder = FOLDER.parent / "one_slot"
    note = folder / "files.json"
    if note.exists():
        return PlantedFiles(**json.loads(note.read_text()))
    files = write_planted_norm(folder, 65536, 16384, [400], hotness=8, dense_dim=5, strength=3.0)
    note.write_text(json.dumps(asdict(files)))
    return files


def day_file(folder: str, number: int, samples: int) -> str:
    """A Parquet file of what happened on a day."""
    path = f"{folder}/day{number}.parquet"
    pq.write_table(pa.table(day(number, samples)), path)
    return path
