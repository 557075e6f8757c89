# SPDX-License-Identifier: Apache-2.0
"""Sums up what benchmarks/cuda/time_line.cpp wrote: where the time of a program's GPUs goes.

    python benchmarks/time_line.py FILE... [--between 0.5 0.9] [--steps 100] [--top 40]
        [--beside 14]

Counts and sums are divided by ``--steps``, so that two programs, or one and two GPUs, can be put
side by side. ``busy`` is the time in which at least one stream of a device runs something; what
remains are gaps, in which the device waits for the host or for another device. ``--beside STREAM``
adds, for each kernel of that stream, how long it takes alone and how long beside each kernel of
other streams: what a product loses where another kernel holds some multiprocessors.
"""

from __future__ import annotations

import argparse
import json
import sys
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

Event = dict[str, Any]
HOST = 1000


def events_of(path: str) -> list[Event]:
    """Events of a file; one that was cut off ends at its last whole line."""
    text = Path(path).read_text()
    if not text.rstrip().endswith("]"):
        text = (text[: text.rfind("\n") + 1].rstrip().rstrip(",") or "[") + "]"
    events: list[Event] = json.loads(text)
    return events


def covered(events: list[Event]) -> float:
    """Microseconds in which at least one event is under way."""
    total, end = 0.0, float("-inf")
    for event in sorted(events, key=lambda e: e["ts"]):
        last = event["ts"] + event["dur"]
        total += max(0.0, last - max(event["ts"], end))
        end = max(end, last)
    return total


def short(name: str) -> str:
    """A kernel without its template arguments."""
    return name.split("<")[0].split("(")[0][-44:]


def sums(events: list[Event], key: Callable[[Event], str], steps: float, top: int) -> list[str]:
    """A line a key, those that take longest first."""
    found: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        found[key(event)].append(event)
    lines = []
    for name, of_name in found.items():
        us = sum(e["dur"] for e in of_name)
        moved = sum(e.get("args", {}).get("bytes", 0) for e in of_name)
        rate = f" {moved / us / 1e3:.1f} GB/s" if moved and us else ""
        count = len(of_name)
        text = f"  {us / 1e3 / steps:9.4f} ms {count / steps:9.2f} x {us / count:9.1f} us  "
        lines.append((us, text + name + rate))
    return [line for _, line in sorted(lines, reverse=True)[:top]]


def beside(events: list[Event], stream: int, top: int) -> list[str]:
    """What runs beside each kernel of a stream for more than half of its time, and how long the
    kernel takes then."""
    own = [e for e in events if e["tid"] == stream]
    others = sorted((e for e in events if e["tid"] != stream), key=lambda e: e["ts"])
    begins = [e["ts"] for e in others]
    longest_other = max((e["dur"] for e in others), default=0.0)
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for event in own:
        end = event["ts"] + event["dur"]
        shared: dict[str, float] = defaultdict(float)
        first = bisect_left(begins, event["ts"] - longest_other)
        for other in others[first : bisect_left(begins, end)]:
            both = min(end, other["ts"] + other["dur"]) - max(event["ts"], other["ts"])
            if both > 0:
                shared[short(other["name"])] += both
        most = max(shared, key=lambda name: shared[name], default="")
        by = most if most and shared[most] > event["dur"] / 2 else "alone"
        found[event["name"]][by].append(event["dur"])
    lines = []
    longest = sorted(found.items(), key=lambda item: -sum(map(sum, item[1].values())))
    for name, kinds in longest[:top]:
        lines.append(f"  {name}")
        for by, times in sorted(kinds.items(), key=lambda item: -sum(item[1])):
            lines.append(f"    {len(times):6} x {sum(times) / len(times):9.1f} us  {by}")
    return lines


def report(path: str, options: argparse.Namespace, out: TextIO) -> None:
    """Writes the sums of one file."""
    events = events_of(path)
    devices = [e for e in events if e["pid"] != HOST]
    if not devices:
        out.write(f"{path}: no device did anything\n")
        return
    first, last = min(e["ts"] for e in devices), max(e["ts"] + e["dur"] for e in devices)
    begin, end = (first + part * (last - first) for part in options.between)
    seen = [e for e in events if begin <= e["ts"] < end]
    steps = options.steps
    out.write(f"{path}: {(end - begin) / 1e3:.2f} ms, {steps:g} steps\n")
    for device in sorted({e["pid"] for e in seen}):
        own = [e for e in seen if e["pid"] == device]
        name = "host" if device == HOST else f"device {device}"
        busy, all_of_it = covered(own) / 1e3 / steps, (end - begin) / 1e3 / steps
        out.write(f"{name}: busy {busy:.4f} of {all_of_it:.4f} ms a step\n")
        if device == HOST:
            lines = sums(own, lambda e: e["name"], steps, options.top // 2)
        else:
            lines = sums(own, lambda e: f"{e['name']} [stream {e['tid']}]", steps, options.top)
            if options.beside is not None:
                lines += ["beside others:", *beside(own, options.beside, options.top // 2)]
        out.writelines(line + "\n" for line in lines)


def main(arguments: list[str] | None = None, out: TextIO = sys.stdout) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--between", nargs=2, type=float, default=(0.0, 1.0), help="of the time")
    parser.add_argument("--steps", type=float, default=1.0)
    parser.add_argument("--top", type=int, default=40)
    parser.add_argument("--beside", type=int, help="a stream")
    options = parser.parse_args(arguments)
    for path in options.files:
        report(path, options, out)


if __name__ == "__main__":
    main()
