# SPDX-License-Identifier: Apache-2.0
"""Sums up what benchmarks/cuda/time_line.cpp wrote: where the time of a program's GPUs goes.

    python benchmarks/time_line.py FILE... [--between 0.5 0.9] [--steps 100] [--top 40] [--window MS]

Counts and sums are divided by ``--steps``, so that two programs or two numbers of GPUs can be put
side by side. ``busy`` is the time in which at least one stream of a device runs something; what
remains are gaps, in which the device waits for the host or for another device. ``--window`` prints
what ran in the first so many milliseconds of the part looked at, one line each.
"""

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path

HOST = 1000


def events_of(path):
    """Events of a file; one that was cut off ends at its last whole line."""
    text = Path(path).read_text()
    if not text.rstrip().endswith("]"):
        text = text[: text.rindex("\n")].rstrip().rstrip(",") + "]"
    return json.loads(text)


def covered(spans):
    """Time that at least one of ``spans`` covers."""
    total, end = 0.0, float("-inf")
    for begin, last in sorted(spans):
        total += max(0.0, last - max(begin, end))
        end = max(end, last)
    return total


def table(events, key, steps, top, out):
    """Prints sums of ``events`` by ``key``, the largest first."""
    sums = defaultdict(lambda: [0, 0.0, 0])
    for event in events:
        entry = sums[key(event)]
        entry[0] += 1
        entry[1] += event["dur"]
        entry[2] += event.get("args", {}).get("bytes", 0)
    rows = sorted(sums.items(), key=lambda item: -item[1][1])
    for name, (count, us, moved) in rows[:top]:
        rate = f"{moved / us / 1e3:8.1f} GB/s" if moved and us else ""
        out.write(f"  {us / 1e3 / steps:9.4f} ms {count / steps:9.2f} x {us / count:9.1f} us  {name} {rate}\n")


def main(arguments=None, out=sys.stdout):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--between", nargs=2, type=float, default=(0.0, 1.0), help="part of the time looked at")
    parser.add_argument("--steps", type=float, default=1.0)
    parser.add_argument("--top", type=int, default=40)
    parser.add_argument("--window", type=float, default=0.0, help="ms")
    options = parser.parse_args(arguments)
    for path in options.files:
        events = events_of(path)
        devices = [e for e in events if e["pid"] != HOST]
        if not devices:
            out.write(f"{path}: no device did anything\n")
            continue
        first, last = min(e["ts"] for e in devices), max(e["ts"] + e["dur"] for e in devices)
        begin, end = (first + part * (last - first) for part in options.between)
        seen = [e for e in events if begin <= e["ts"] < end]
        out.write(f"{path}: {(end - begin) / 1e3:.2f} ms, {options.steps:g} steps\n")
        for device in sorted({e["pid"] for e in seen}):
            of_device = [e for e in seen if e["pid"] == device]
            busy = covered([(e["ts"], e["ts"] + e["dur"]) for e in of_device]) / 1e3
            name = "host" if device == HOST else f"device {device}"
            out.write(f"{name}: busy {busy / options.steps:.4f} of {(end - begin) / 1e3 / options.steps:.4f} ms a step\n")
            if device == HOST:
                table(of_device, lambda e: e["name"], options.steps, options.top // 2, out)
            else:
                table(of_device, lambda e: f"{e['name']} [stream {e['tid']}]", options.steps, options.top, out)
        if options.window:
            for e in sorted(seen, key=lambda e: e["ts"]):
                if e["ts"] - begin > options.window * 1e3:
                    break
                where = "host" if e["pid"] == HOST else f"{e['pid']}/{e['tid']}"
                out.write(f"{e['ts'] - begin:10.1f} {e['dur']:8.1f} {where:>10} {e['name']}\n")


if __name__ == "__main__":
    main()
