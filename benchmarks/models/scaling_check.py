# SPDX-License-Identifier: Apache-2.0
"""Steps on 2 and 4 H200 as `hugectr.plan.scaling` predicts them, beside those of committed records;
then what it says of 8 to 64. No GPU is needed.

    python benchmarks/models/scaling_check.py
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from ctr_batches import ALPHA

from hugectr.plan.machine import read_machine
from hugectr.plan.scaling import Network, Work, power_law, predict, table

RESULTS = Path(__file__).parents[1] / "results"
#: DLRM of `ctr_gpu.py`: its record, the devices, and the step of one device in the same record.
RECORDS = [
    ("2026-11-22-h200x2-validation.json", "ctr_dlrm_2_Localized_131072", 2),
    ("2026-11-22-h200x2-validation.json", "ctr_dlrm_2_Distributed_131072", 2),
    ("2026-11-22-h200x2-validation.json", "ctr_dlrm_2_Localized_131072_pooled", 2),
    ("2026-11-21-h200x4-validation-4.json", "ctr_dlrm_4_Localized_262144", 4),
    ("2026-11-21-h200x4-validation-4.json", "ctr_dlrm_4_Distributed_262144", 4),
    ("2026-11-21-h200x4-validation-4.json", "ctr_dlrm_4_Localized_262144_pooled", 4),
    ("2026-11-21-h200x4-save.json", "ctr_dlrm_4_Localized_262144", 4),
    ("2026-11-21-h200x4-save.json", "ctr_dlrm_4_Localized_262144_pooled", 4),
    ("2026-11-27-h200x4-validation.json", "ctr_dlrm_2_Localized_131072", 2),
    ("2026-11-27-h200x4-validation.json", "ctr_dlrm_2_Distributed_131072", 2),
    ("2026-11-27-h200x4-validation.json", "ctr_dlrm_4_Localized_262144", 4),
    ("2026-11-27-h200x4-validation.json", "ctr_dlrm_4_Distributed_262144", 4),
]


def measured(record: str, case: str) -> dict[str, Any]:
    """What a record holds of one benchmark."""
    found = json.loads((RESULTS / record).read_text())["benchmarks"][case]
    ours = (found[0] if isinstance(found, list) else found)["ours"]
    return dict(ours)


def dlrm(one_ms: float, exchange: str = "unique") -> Work:
    """65,536 samples a device of the benchmark's DLRM in bf16: 26 slots of 1 M rows, d 128."""
    return Work(
        samples=65_536,
        slots=26,
        keys=26,
        vec_size=128,
        distinct=power_law(26, 1_000_000, ALPHA),
        one_seconds=one_ms / 1e3,
        dense_bytes=9.6e6,
        backward_seconds=1.3e-3,
        exchange=exchange,
    )


def main() -> None:
    """Prints both tables."""
    machine = read_machine("h200")
    work = dlrm(2.84)
    print(f"distinct rows of a device's samples: {work.distinct(work.samples):,.0f}\n")
    print("| record, case | one GPU, ms | predicted | measured | error |\n|---|---|---|---|---|")
    for record, case, devices in RECORDS:
        one = measured(record, "ctr_dlrm_1")["ms"]
        ms = measured(record, case)["ms"]
        exchange = "pooled" if case.endswith("pooled") else "unique"
        found = 1e3 * predict(dlrm(one, exchange), machine, devices).seconds
        name = f"{record[:18]}, {case[9:]}"
        print(f"| {name} | {one:.2f} | {found:.2f} | {ms:.2f} | {found / ms - 1:+.1%} |")
    many = (1, 2, 4, 8, 16, 32, 64)
    network = Network()
    for name, of, by_node in (
        ("bf16, rows to each device", work, False),
        ("bf16, rows to each node once", work, True),
        ("fp8, rows to each node once", replace(work, wire_bytes=1 + 4 / 128), True),
    ):
        print(f"\n{name}\n")
        print(table(of, [predict(of, machine, n, network, by_node=by_node) for n in many]))
    host = predict(work, machine, 64, network, resident=False)
    print(f"\nkeys of a batch from the host to each of 64 devices: {1e3 * host.input:.1f} ms")


if __name__ == "__main__":
    main()
