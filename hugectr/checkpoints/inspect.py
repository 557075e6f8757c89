# SPDX-License-Identifier: Apache-2.0
"""A look into saved files: ``hugectr model inspect``. Independent of the core's readers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hugectr.base.errors import DataError, InvalidArgument
from hugectr.checkpoints.key_files import look_at_keys
from hugectr.checkpoints.manifest import MANIFEST
from hugectr.checkpoints.merge import links_of
from hugectr.checkpoints.original_files import saved_statistics, statistics_file
from hugectr.checkpoints.shard_names import linked_shards

_NAME = re.compile(
    r"(?P<prefix>.*?)(?P<kind>_opt_dense|_dense|\d+_opt_sparse|\d+_sparse)_\d+\.model"
)


def _floats(path: Path) -> npt.NDArray[np.float32]:
    size = path.stat().st_size
    if size == 0 or size % 4:
        return np.zeros(0, dtype=np.float32)
    return np.memmap(path, dtype="<f4", mode="r")


def _describe(values: npt.NDArray[np.float32], problems: list[str]) -> dict[str, Any]:
    """Extremes and root mean square, read in chunks so that a large file needs little memory."""
    low, high, squares, bad = np.inf, -np.inf, 0.0, 0
    for start in range(0, values.size, 1 << 22):
        chunk = np.asarray(values[start : start + (1 << 22)])
        finite = np.isfinite(chunk)
        bad += int(chunk.size - np.count_nonzero(finite))
        chunk = chunk[finite]
        if chunk.size:
            low, high = min(low, float(chunk.min())), max(high, float(chunk.max()))
            squares += float(np.dot(chunk.astype(np.float64), chunk.astype(np.float64)))
    if bad:
        problems.append(f"{bad} values are NaN or infinite")
    good = values.size - bad
    if good == 0:
        return {"minimum": None, "maximum": None, "rms": None}
    return {"minimum": low, "maximum": high, "rms": (squares / good) ** 0.5}


def _inspect_file(path: Path) -> dict[str, Any]:
    problems: list[str] = []
    size = path.stat().st_size
    if size % 4:
        problems.append(f"{size} bytes are no whole number of float32 values")
    found = _NAME.fullmatch(path.name)
    kind = "dense weights"
    if found and "opt" in found["kind"]:
        kind = "optimizer states"
    report: dict[str, Any] = {"path": str(path), "kind": kind, "bytes": size, "values": size // 4}
    report |= _describe(_floats(path), problems)
    statistics = statistics_file(path)
    if statistics.exists():
        try:
            report["batch_norm_layers"] = [mean.size for mean, _ in saved_statistics(statistics)]
        except DataError as error:
            problems.append(str(error))
    return report | {"problems": problems}


def _inspect_table(folder: Path) -> dict[str, Any]:
    problems: list[str] = []
    key_bytes = (folder / "key").stat().st_size
    vector_bytes = (folder / "emb_vector").stat().st_size
    rows = key_bytes // 8
    report: dict[str, Any] = {
        "path": str(folder),
        "kind": "table",
        "bytes": sum(file.stat().st_size for file in folder.iterdir() if file.is_file()),
        "rows": rows,
        "vec_size": None,
    }
    if key_bytes % 8:
        problems.append(f"key: {key_bytes} bytes are no whole number of int64 keys")
    elif rows and (vector_bytes % (4 * rows) or vector_bytes == 0):
        problems.append(f"emb_vector: {vector_bytes} bytes do not fit {rows} keys")
    elif rows:
        report["vec_size"] = vector_bytes // (4 * rows)
        _check_keys(folder, rows, report, problems)
    elif vector_bytes:
        problems.append(f"emb_vector: {vector_bytes} bytes without any key")
    report |= _describe(_floats(folder / "emb_vector"), problems)
    return report | {"problems": problems}


def _check_keys(folder: Path, rows: int, report: dict[str, Any], problems: list[str]) -> None:
    slot_file = folder / "slot_id"
    has_slots = slot_file.is_file() and slot_file.stat().st_size == 8 * rows
    found = look_at_keys(folder / "key", slot_file if has_slots else None)
    report["key_min"], report["key_max"] = found.least, found.most
    if has_slots:
        report["slots"] = found.slots
    elif slot_file.exists():  # keys may be there once a slot
        problems.append(f"slot_id: {slot_file.stat().st_size} bytes, {8 * rows} are expected")
        return
    if found.twice:
        problems.append(f"{found.twice} keys are there more than once")


def _inspect_native(folder: Path) -> dict[str, Any]:
    """What the manifest says, and whether files have the sizes it says."""
    problems: list[str] = []
    report: dict[str, Any] = {"path": str(folder), "kind": "checkpoint"}
    try:
        links = links_of(folder)
    except DataError as error:
        return report | {"problems": [str(error)]}
    manifest = links[-1][1]
    report |= {name: manifest[name] for name in ("model", "step", "seed", "data_position")}
    report["bytes"] = sum(entry["bytes"] for entry in manifest["files"].values())
    report["builds_on"] = [link.name for link, _ in links[:-1]]
    report["tables"] = [
        {"name": table["name"], "rows": table["rows"], "vec_size": table["vec_size"]}
        | {"parts": table["parts"], "shards": len(table["shards"])}
        | {"linked_rows": sum(one["rows"] for _, one in linked_shards(0, table))}
        for table in manifest["tables"]
    ]
    return report | {"problems": problems}


def _native_lines(report: dict[str, Any]) -> list[str]:
    if report["problems"]:
        return [f"{report['path']}: checkpoint", *(f"  problem: {p}" for p in report["problems"])]
    size = f"step {report['step']}, {report['bytes']:,} bytes"
    if report["builds_on"]:
        size += f", delta on {report['builds_on'][-1]}"
    lines = [f"{report['path']}: checkpoint, {size}"]
    for table in report["tables"]:
        lines.append(
            f"  table {table['name']}: {table['rows']:,} rows x {table['vec_size']}, "
            f"{table['shards']} shards, parts {', '.join(table['parts'])}"
            + (f", {table['linked_rows']:,} rows linked" if table["linked_rows"] else "")
        )
    return lines


def inspect_model(path: str | Path) -> list[dict[str, Any]]:
    """Look into a saved file, a table's folder, or all saved files of a folder.

    Parameters
    ----------
    path : path
        A ``.model`` file, a table folder, or a folder that holds such.

    Returns
    -------
    list of dict
        One a file or table, sorted by name: path, kind, bytes, sizes, extremes, and ``problems``.

    Raises
    ------
    InvalidArgument
        When there is nothing saved at the path.
    """
    place = Path(path)
    if place.is_file():
        return [_inspect_file(place)]
    if not place.is_dir():
        raise InvalidArgument(f"{place}: there is no such file or folder")
    if (place / MANIFEST).is_file():
        return [_inspect_native(place)]
    if (place / "key").is_file() and (place / "emb_vector").is_file():
        return [_inspect_table(place)]
    reports = []
    for item in sorted(place.iterdir()):
        if item.is_dir() and (item / "key").is_file() and (item / "emb_vector").is_file():
            reports.append(_inspect_table(item))
        elif (item / MANIFEST).is_file() and not item.name.startswith("."):
            reports.append(_inspect_native(item))
        elif item.is_file() and item.suffix == ".model":
            reports.append(_inspect_file(item))
    if not reports:
        raise InvalidArgument(f"{place}: found no .model file, table folder or checkpoint in it")
    return reports


def format_report(reports: list[dict[str, Any]]) -> str:
    """The result of ``inspect_model`` as lines of text."""
    lines = []
    for report in reports:
        if report["kind"] == "checkpoint":
            lines += _native_lines(report)
            continue
        if report["kind"] == "table":
            size = f"{report['rows']:,} rows x {report['vec_size']}"
            if "slots" in report:
                size += f", {len(report['slots'])} slots"
        else:
            size = f"{report['values']:,} values"
        if report["rms"] is not None:
            size += f", {report['minimum']:g} .. {report['maximum']:g}, rms {report['rms']:.4g}"
        lines.append(f"{report['path']}: {report['kind']}, {size}")
        lines += [f"  problem: {text}" for text in report["problems"]]
    return "\n".join(lines)
