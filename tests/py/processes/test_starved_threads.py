# SPDX-License-Identifier: Apache-2.0
"""Threads of the core that get no memory: an error that says so, never the end of the process.

At the end of the address space a thread may fail at its first exception (libstdc++'s variables of a
thread, for which the loader ends the process), when it asks Python (which keeps a state of every
thread: CPython 3.11 follows a null pointer) and inside of Python (errors without a traceback, which
Cython took for one). Which comes first depends on the moment, so the memory is refused here.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from oracle.small_data import generate
from processes import job

HERE = Path(__file__).parent
SCRIPT = HERE / "starved_job.py"
#: What is refused: requests of so many bytes, from and to; and who gives Python its small objects.
#: "pymalloc" asks for them in large pieces that are not refused: without any of them CPython 3.11
#: never comes out of an exception.
REQUESTS = {
    "all": (1, 1 << 60, "pymalloc"),
    "a thread's state": (256, 1 << 60, "malloc"),  # Python's, not what libstdc++ has of a thread
    "tracebacks": (64, 100, "malloc"),
}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The library that refuses memory."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        pytest.skip("no C compiler to make a library with that refuses memory")
    made = tmp_path_factory.mktemp("starved") / "starved.so"
    source = HERE / "starved_threads.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", made, source], check=True)
    return made


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Training and evaluation data of each kind."""
    folder = tmp_path_factory.mktemp("starved-data")
    return {kind: generate(folder, kind, num_files=6) for kind in ("Norm", "Parquet")}


def run(library, kind, size, sources, when, refused):
    """Requests that were refused in process 0, how each process ended, and what they wrote."""
    least, most, malloc = REQUESTS[refused]
    more = {"LD_PRELOAD": str(library), "PYTHONMALLOC": malloc, "HUGECTR_NUM_THREADS": "3"}
    words = [*map(str, (kind, *sources[kind], when, least, most))]
    if size > 1:
        _, out, err = job.run("launch", size, SCRIPT, *words, **more)
    else:
        done = subprocess.run(
            [sys.executable, SCRIPT, *words],
            env=job.environment(**more),
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        out, err = done.stdout, done.stderr
    count = re.search(r"refused: (\d+)", out)
    ends = re.findall(r"ended: (.*)", out)
    assert count is not None, out + err
    assert len(ends) == size, out + err
    assert "SIG" not in err, err
    assert "ABORT" not in err, err
    return int(count[1]), ends, err


@pytest.mark.parametrize(
    ("kind", "size", "refused"),
    [
        ("Parquet", 1, "all"),
        ("Norm", 2, "all"),
        ("Norm", 2, "a thread's state"),
        ("Norm", 2, "tracebacks"),
    ],
)
def test_threads_that_get_no_memory_say_so(library, sources, kind, size, refused):
    count, ends, err = run(library, kind, size, sources, "train", refused)
    assert count > 0
    for end in ends:
        assert "memory" in end, err


def test_a_thread_that_gets_no_memory_is_not_started(library, sources):
    count, [end], _ = run(library, "Norm", 1, sources, "build", "all")
    assert count > 0
    assert re.search(r"OutOfMemory: the thread 'hctr-\S+' could not be started: it got no", end)
    assert "HUGECTR_NUM_THREADS" in end
