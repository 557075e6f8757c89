# SPDX-License-Identifier: Apache-2.0
"""Who waits for whom between the files and the step, from the counters of a reader."""

from __future__ import annotations

from collections.abc import Mapping

#: Means, and what each is a mean over; everything else adds up, except what never changes.
_MEANS = {"ready_depth": "batches", "credit_depth": "batches", "ahead_depth": "acquired"}
_LATEST = ("rows_decoded", "chunks", "slots")

#: Of the time, from which on waiting is worth a word.
_WAITS = 0.02


def merge(earlier: Mapping[str, float], later: Mapping[str, float]) -> dict[str, float]:
    """Counters of two times after each other as those of both together.

    Parameters
    ----------
    earlier, later : mapping
        As ``Model.reader_metrics`` returns them; ``earlier`` may be empty.
    """
    if not earlier:
        return dict(later)
    merged = {}
    for name, value in later.items():
        if name in _LATEST:
            merged[name] = value
        elif name in _MEANS:
            counts = earlier[_MEANS[name]], later[_MEANS[name]]
            total = earlier[name] * counts[0] + value * counts[1]
            merged[name] = total / max(1, sum(counts))
        else:
            merged[name] = earlier[name] + value
    return merged


def who_waits(metrics: Mapping[str, float]) -> str:
    """One sentence: which stage the others wait for, and what would help.

    A step takes its batch, through the lookup plan, one step ahead. So a batch that lies ready on
    the devices when it is asked for means that reading keeps up.
    """
    if not metrics["acquired"]:
        return "no batch was taken"
    waiting = metrics["acquire_seconds"] / max(metrics["seconds"], 1e-9)
    if metrics["ahead_depth"] >= 1 or waiting < _WAITS:
        return "the reader waits for the step"
    share = f"{100 * min(1.0, waiting):.0f} % of the time"
    if metrics["ready_depth"] >= 1:
        return f"the step waits for the copy to the devices ({share})"
    return f"the step waits for the reader ({share}): more workers (num_workers) or faster storage"


def pipeline_line(metrics: Mapping[str, float]) -> str:
    """Queue depths (mean of their room), seconds of every stage, and who waits for whom."""
    chunks, slots = int(metrics["chunks"]), int(metrics["slots"])
    if not chunks:
        return "Pipeline: batches stay on the devices, nothing is read"
    return (
        f"Pipeline: parsed {metrics['ready_depth']:.1f} and free {metrics['credit_depth']:.1f} of "
        f"{chunks} chunks, ahead on the devices {metrics['ahead_depth']:.1f} of {slots} batches; "
        f"parsing {metrics['parse_seconds']:.2f}s, waiting: workers for a free chunk "
        f"{metrics['credit_seconds']:.2f}s, copy for a parsed one {metrics['ready_seconds']:.2f}s, "
        f"step for a batch {metrics['acquire_seconds']:.2f}s; {who_waits(metrics)}"
    )
