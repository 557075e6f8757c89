# SPDX-License-Identifier: Apache-2.0
"""A new user's first day, timed: a CSV file to a model, its quality, and predictions elsewhere.

Run: python benchmarks/users/first_day.py [--peer PYTHON] [--criteo FOLDER] [--rows N] [--json FILE]

1. ``first_day_train.py`` and ``first_day_predict.py``, processes of their own, from their start to
   their end, imports included: 200,000 rows of text, gaps and numbers (``clicks.py``) are trained
   on, evaluated and saved; another process loads the model and predicts 50,000 rows.
2. The same by three commands.
3. With ``--peer``, an interpreter with lightgbm and pandas: the same by LightGBM's default
   (``lightgbm_peer.py``), in the same run.
4. AUC beside LightGBM's on the Census Income data, and with ``--criteo`` (a folder with the
   sample's criteo_*.csv, which the package does not ship) on five random splits of its 8,000 rows.

Nothing is tuned to a data set: both sides run with their defaults.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
from clicks import make

import hugectr
from hugectr.data.planted import auc

HERE = Path(__file__).resolve().parent
TEST_ROWS, SPLITS = 50_000, 5


def timed(*command: str | Path, folder: Path) -> dict[str, float]:
    """Seconds of a command, from its start to its end, and of all its threads on the processor."""
    begin, before = time.perf_counter(), os.times()
    subprocess.run([str(part) for part in command], cwd=folder, check=True, capture_output=True)
    after, end = os.times(), time.perf_counter()
    cpu = sum(getattr(after, n) - getattr(before, n) for n in ("children_user", "children_system"))
    return {"seconds": round(end - begin, 2), "cpu_seconds": round(cpu, 2)}


def label_of(file: Path, column: str) -> np.ndarray[Any, Any]:
    """The labels of a CSV file."""
    only = pc.ConvertOptions(include_columns=[column])
    return pc.read_csv(file, convert_options=only).column(column).to_numpy()


def scores_of(file: Path) -> np.ndarray[Any, Any]:
    """The predictions of a CSV file."""
    return np.asarray(pc.read_csv(file).column(-1).to_numpy())


def first_day(folder: Path, rows: int, peer: str | None) -> dict[str, Any]:
    """Parts 1 to 3."""
    table, logit = make(rows + TEST_ROWS, seed=7)
    pc.write_csv(table.slice(0, rows), folder / "train.csv")
    pc.write_csv(table.slice(rows), folder / "test.csv")
    label = label_of(folder / "test.csv", "clicked")
    python = sys.executable
    scripts = [HERE / "first_day_train.py", HERE / "first_day_predict.py"]
    lines = sum(len(script.read_text().strip().splitlines()) - 1 for script in scripts)
    found: dict[str, Any] = {
        "rows": rows,
        "auc_of_the_hidden_logit": auc(label, logit[rows:]),
        "script": {"lines": lines, "runs": [timed(python, s, folder=folder) for s in scripts]},
    }
    found["script"]["auc"] = auc(label, scores_of(folder / "predictions.csv"))
    command = [python, "-m", "hugectr"]
    found["commands"] = {
        "runs": [
            timed(*command, "train", "train.csv", "--label", "clicked", folder=folder),
            timed(*command, "evaluate", "model", "test.csv", folder=folder),
            timed(*command, "predict", "model", "test.csv", "-o", "by-command.csv", folder=folder),
        ],
        "auc": auc(label, scores_of(folder / "by-command.csv")),
    }
    if peer:
        peer_script = HERE / "lightgbm_peer.py"
        run = timed(
            peer, peer_script, "train.csv", "test.csv", "clicked", "peer.csv", folder=folder
        )
        found["lightgbm"] = {
            "runs": [run],
            "auc": auc(label, scores_of(folder / "peer.csv")),
        }
    return found


def beside(folder: Path, train: pa.Table, test: pa.Table, label: str, peer: str | None) -> Any:
    """AUC of both sides on the same files."""
    pc.write_csv(train, folder / "train.csv")
    pc.write_csv(test, folder / "test.csv")
    model = hugectr.CTRClassifier(random_state=1).fit(str(folder / "train.csv"), label)
    truth = label_of(folder / "test.csv", label)
    result = {"hugectr": auc(truth, model.predict_proba(str(folder / "test.csv"))[:, 1])}
    if peer:
        timed(
            peer,
            HERE / "lightgbm_peer.py",
            "train.csv",
            "test.csv",
            label,
            "peer.csv",
            folder=folder,
        )
        result["lightgbm"] = auc(truth, scores_of(folder / "peer.csv"))
    return result


def adult(folder: Path, peer: str | None) -> Any:
    """The Census Income data: its own split."""
    data = Path(hugectr.data.__file__).parent
    parts = [pq.read_table(data / f"adult_{part}.parquet") for part in ("train", "test")]
    plain = [
        pa.table(
            {
                name: table.column(name).cast(pa.string())
                if pa.types.is_dictionary(table.schema.field(name).type)
                else table.column(name)
                for name in table.column_names
            }
        )
        for table in parts
    ]
    return beside(folder, *plain, "label", peer)


def criteo(folder: Path, sample: Path, peer: str | None) -> Any:
    """Five random splits, a fifth for the test each, of all rows of the sample."""
    names = ["label", *(f"I{i}" for i in range(1, 14)), *(f"C{i}" for i in range(1, 27))]
    types = {name: pa.string() for name in names if name[0] == "C"}
    reading = pc.ReadOptions(column_names=names), pc.ParseOptions(delimiter="\t")
    options = pc.ConvertOptions(column_types=types, strings_can_be_null=True)
    files = [sample / f"criteo_{part}.csv" for part in ("train", "dev", "test")]
    table = pa.concat_tables([pc.read_csv(file, *reading, options) for file in files])
    results = []
    for split in range(SPLITS):
        order = np.random.default_rng(split).permutation(table.num_rows)
        cut = table.num_rows * 4 // 5
        parts = table.take(order[:cut]), table.take(order[cut:])
        results.append(beside(folder, *parts, "label", peer))
    means = {side: float(np.mean([r[side] for r in results])) for side in results[0]}
    return {"rows": table.num_rows, "mean": means, "splits": results}


def main() -> None:
    """Run all parts; print and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", help="an interpreter with lightgbm and pandas")
    parser.add_argument("--criteo", type=Path, help="folder of the Criteo sample")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--json", type=Path, help="write the result there")
    args = parser.parse_args()
    found: dict[str, Any] = {"hugectr": hugectr.__version__, "cores": os.cpu_count()}
    found["load_before"] = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        found["first_day"] = first_day(Path(folder), args.rows, args.peer)
        found["adult"] = adult(Path(folder), args.peer)
        if args.criteo:
            found["criteo_sample"] = criteo(Path(folder), args.criteo, args.peer)
    found["load_after"] = os.getloadavg()[0]
    text = json.dumps(found, indent=2)
    print(text)
    if args.json:
        args.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
