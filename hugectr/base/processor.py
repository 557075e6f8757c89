# SPDX-License-Identifier: Apache-2.0
"""Whether this machine's processor runs the compiled parts.

Those are built for x86-64-v3. The check reads the system's own list, because the libraries already
run code when they are loaded, and would die of an illegal instruction before they could be asked.
"""

from __future__ import annotations

import platform
from pathlib import Path

#: What x86-64-v3 adds to the baseline, as /proc/cpuinfo calls it.
REQUIRED = ("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe")


def missing_features(cpuinfo: str) -> list[str]:
    """The required features that the processor lacks.

    Parameters
    ----------
    cpuinfo : str
        Text of ``/proc/cpuinfo``. Without a line of flags nothing is known, so nothing is missing.
    """
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "flags":
            present = set(value.split())
            return [feature for feature in REQUIRED if feature not in present]
    return []


def require_features() -> None:
    """Raises ImportError, with the way out, when the processor lacks what the libraries use."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return
    try:
        cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    missing = missing_features(cpuinfo)
    if missing:
        raise ImportError(
            f"hugectr is built for x86-64-v3, and this processor lacks: {', '.join(missing)}. "
            "Use a machine with AVX2 and FMA, or build from source for this one: "
            'pip install . --config-settings=cmake.define.HUGECTR_CPU_ARCH="native"'
        )
