# SPDX-License-Identifier: Apache-2.0
"""Memory, descriptors, threads and file sizes that do not suffice, at twenty points each."""

from __future__ import annotations

import atexit
import functools
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

from faults.harness import ROOT, Case, Crashed, Ended, FalseSuccess, run_script

NAME = "limits of memory, descriptors, threads and file sizes"

POINTS = 20
JOB = ROOT / "tests" / "faults" / "limits_job.py"
#: What a run needs of each beyond an import, more or less: the last point is above it.
NEEDS = {"NOFILE": 19, "NPROC": 38, "FSIZE": 60_000}
#: What other libraries write before they end the process themselves, by the library.
FOREIGN = {
    "OpenBLAS": re.compile(r"OpenBLAS (error|blas_thread_init)|BLAS : (Program|Bad memory)"),
    # Also its C++ exception out of a call that may not throw: the innermost frame is pyarrow's.
    "Arrow": re.compile(
        r"arrow/\S+: Check failed|arrow::.*terminate|"
        r"std::bad_alloc.*Current thread[^\n]*\n\s*File \"[^\"]*/pyarrow/",
        re.DOTALL,
    ),
    "glibc": re.compile(
        r"cannot allocate memory (for thread-local|in static TLS)|_dl_allocate_tls"
    ),
}
GENERATE = """
import sys
from pathlib import Path
from oracle.small_data import generate
print("|".join(generate(Path(sys.argv[1]), sys.argv[2], num_files=6)))
"""
NOBODY = 65534
#: Signals inside other libraries: (case, library), beside the table.
foreign: list[tuple[str, str]] = []


@functools.cache
def data(kind: str) -> tuple[str, str]:
    """Training and evaluation data, made once."""
    folder = Path(tempfile.mkdtemp(prefix="hctr-limits-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = run_script(GENERATE, folder, kind)
    sources = made.out.splitlines()[-1].split("|")
    return sources[0], sources[1]


def run(folder: Path, kind: str, size: int = 1, **more: object) -> Ended:
    """One run."""
    source, eval_source = data(kind)
    settings = {"kind": kind, "source": source, "eval_source": eval_source, "rank": 0}
    settings |= {"folder": str(folder / "run"), "background": False} | more
    environ = {"HUGECTR_NUM_THREADS": "3", "HUGECTR_PROCESS_TIMEOUT": "20"}
    if size == 1:
        return run_script(JOB, json.dumps(settings), environ=environ, seconds=120)
    launch = "import sys\nfrom hugectr.command.cli import main\nsys.exit(main(sys.argv[1:]))\n"
    words = ["launch", "-n", size, JOB, json.dumps(settings)]
    return run_script(launch, *words, environ=environ, seconds=180)


@functools.cache
def memory_needed(kind: str, size: int) -> int:
    """Bytes of address space that a run takes beyond its import."""
    with tempfile.TemporaryDirectory(prefix="hctr-fault-") as folder:
        ended = run(Path(folder), kind, size)
    found = {word: re.search(rf"{word}: (\d+)", ended.out) for word in ("peak", "start")}
    peak, start = (int(one[1]) if one else None for one in found.values())
    if peak is None or start is None:
        text = ended.out + ended.err
        raise FalseSuccess(
            f"a run without limits, status {ended.status}, no figures\n{text[-6000:]}"
        )
    return peak - start


def held(name: str, folder: Path, kind: str, size: int, limit: str, point: int) -> None:
    """Run below a limit: the run is done, or says what was short."""
    need = memory_needed(kind, size) if limit == "AS" else NEEDS[limit]
    half = POINTS // 2
    if limit == "AS":
        # A table's index reserves most of the address space at once: points below and above that.
        share = 0.1 * point / half if point < half else 0.84 + 0.16 * (point - half) / (half - 1)
    else:
        share = point / (POINTS - 1)
    more = 1 + int(need * share)
    settings: dict[str, object] = {"limit": limit, "more": more, "background": point % 2 == 1}
    if limit == "NPROC":
        settings["user"] = NOBODY
    try:
        ended = run(folder, kind, size, **settings)
    except Crashed as crash:
        library = library_of(str(crash))
        if library is None:
            raise
        foreign.append((name, library))
        print(f"limits {name}: a signal inside {library}", file=sys.stderr)
        return
    text = ended.out + ended.err
    last = re.findall(r"ended: (.*)", ended.out)
    if not last and library_of(text):
        foreign.append((name, str(library_of(text))))
        return
    if re.search(r"SIG[A-Z]+|terminate called|Fatal Python error", text) and size > 1:
        library = library_of(text)
        if library is None:
            raise Crashed(f"{text[-6000:]}")
        foreign.append((name, library))
        return
    if not last:
        raise FalseSuccess(f"status {ended.status} without a word\n{text[-6000:]}")
    if re.search(r"ended: \w+: (Resource temporarily unavailable|std::\w+)?$", ended.out, re.M):
        raise FalseSuccess(f"the error names nothing\n{text[-6000:]}")


def library_of(text: str) -> str | None:
    """The library that ended the process, by its own words."""
    return next((name for name, words in FOREIGN.items() if words.search(text)), None)


def cases(full: bool) -> list[Case]:
    """Each limit at each point, of both formats, in one and two processes."""
    found = []
    for kind in ("Norm", "Parquet"):
        for size in (1, 2):
            for limit in ("AS", "NOFILE", "NPROC", "FSIZE"):
                if limit == "NPROC" and os.getuid() != 0:
                    continue  # only root may take another user, and root has no such limit
                for point in range(POINTS):
                    name = f"{kind}-{size}-{limit}-{point}"
                    run_it = functools.partial(
                        held, name, kind=kind, size=size, limit=limit, point=point
                    )
                    found.append(Case(name, run_it))
    if full:
        return found
    short = {"Norm-1-NOFILE-3", "Norm-1-NPROC-9", "Norm-1-AS-9"}
    return [case for case in found if case.name in short]
