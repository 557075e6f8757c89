# SPDX-License-Identifier: Apache-2.0
"""Cards of a report about a model: tables, layers, where the time goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hugectr.model.job_stats import Stats
from hugectr.model.pipeline import who_waits
from hugectr.report.html import Share, Table

if TYPE_CHECKING:
    from hugectr.model.model import Model

Bars = tuple[str, list[Share], str]


def bytes_text(count: float) -> str:
    """A number of bytes as people write it."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def stages_bars(stages: Mapping[str, float], reader: Mapping[str, float]) -> Bars:
    """Seconds of the stages of a step and of reading."""
    seconds = dict(stages)
    seconds.setdefault("read: parse", float(reader["parse_seconds"]))
    seconds.setdefault("read: step waits for data", float(reader["acquire_seconds"]))
    longest = max(seconds.values(), default=0.0)
    shares = [
        Share(name.replace("_", " "), value, longest, f"{value:.2f} s")
        for name, value in sorted(seconds.items(), key=lambda item: -item[1])
    ]
    note = "Stages overlap: reading and planning of the next batches run beside the step."
    if not longest:
        shares = []
    return ("Time per stage", shares, f"{note} Here {who_waits(reader)}.")


def queues_bars(reader: Mapping[str, float]) -> Bars:
    """Depths of the queues between files and step."""
    depths = [
        ("parsed chunks", "ready_depth", "chunks"),
        ("free chunks", "credit_depth", "chunks"),
        ("batches ahead on the devices", "ahead_depth", "slots"),
    ]
    shares = [
        Share(name, reader[depth], reader[room], f"{reader[depth]:.1f} of {reader[room]:.0f}")
        for name, depth, room in depths
        if reader[room] and reader["batches"]
    ]
    note = "Mean depth of each queue between the files and the step, whenever a batch left it."
    return ("Queues of the reader", shares, note)


def tables_card(model: Model, of_tables: Stats) -> Table:
    """Sizes of the tables, and how full they are."""
    rows, shares = [], []
    for embedding, table in zip(model.embeddings, of_tables, strict=True):
        name = embedding.sparse_embedding_name
        count, budget, places = table["rows"], table["max_rows"], table["index_slots"]
        rows.append(
            [
                name,
                f"{count:,}",
                str(embedding.embedding_vec_size),
                f"{budget:,}" if budget else "none",
                f"{places:,}",
                bytes_text(table["bytes"]),
            ]
        )
        if budget:
            text = f"{count:,} of {budget:,}"
            shares.append(Share(f"{name}: rows of budget", count, budget, text))
        shares.append(Share(f"{name}: index places", count, places, f"{count:,} of {places:,}"))
    head = ["table", "rows", "floats a row", "row budget", "index places", "memory"]
    note = (
        "Memory: rows, optimizer states and index, as mapped. "
        "Tables start small and grow up to their budget."
    )
    return Table("Embedding tables", head, rows, note, shares=shares)


def lives_bars(model: Model, of_tables: Stats) -> Bars:
    """What became of the rows of tables that forget some."""
    shares = []
    for embedding, table in zip(model.embeddings, of_tables, strict=True):
        if not embedding.life.keeps_scores:
            continue
        name = embedding.sparse_embedding_name
        came = max(1, table["admitted"] + table["refused"])
        for what in ("admitted", "refused", "evicted"):
            count = table[what]
            shares.append(Share(f"{name}: {what}", count, max(came, count), f"{count:,} rows"))
    note = (
        "Rows that came to train, that went before they did, and that were evicted, since the "
        "model was built."
    )
    return ("Rows that come and go", shares, note)


def tiers_bars(model: Model, of_tables: Stats) -> Bars:
    """Where rows were when batches asked for them, and what was moved."""
    shares = []
    for embedding, table in zip(model.embeddings, of_tables, strict=True):
        asked = table["hits"] + table["misses"]
        if not asked:
            continue
        name = embedding.sparse_embedding_name
        shares.append(
            Share(f"{name}: on the device", table["hits"], asked, f"{table['hits']:,} rows")
        )
        below = table["host_hits"] + table["host_misses"]
        if below:
            text = f"{table['host_hits']:,} rows"
            shares.append(Share(f"{name}: in host memory", table["host_hits"], below, text))
        moves = {
            "fetched to the device": table["bytes_fetched"],
            "written back": table["bytes_written_back"],
            "read from the disk": table["disk_bytes_read"],
            "written to the disk": table["disk_bytes_written"],
        }
        most = max(1, *moves.values())
        shares += [
            Share(f"{name}: {what}", count, most, bytes_text(count))
            for what, count in moves.items()
            if count
        ]
    note = (
        "Of the distinct rows of all batches, those that were on their device; with a disk, of the "
        "others that had been there before those in host memory; and what was moved between tiers."
    )
    return ("Tiers of rows", shares, note)


def layers_card(model: Model) -> Table:
    """The layers with their inputs and outputs."""
    rows = []
    for kind, bottoms, tops, shapes in model.layer_summary():
        dims = [" x ".join(["batch", *(str(d) for d in shape[1:])]) for shape in shapes]
        rows.append([kind, ", ".join(bottoms), ", ".join(tops), ", ".join(dims)])
    return Table("Model", ["layer", "input", "output", "output shape"], rows, words=True)
