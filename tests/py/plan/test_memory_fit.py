# SPDX-License-Identifier: Apache-2.0
"""Whether a plan's bytes are there is found by taking them, in a process that may be ended."""

import json
import os
import resource
import signal
import subprocess
import sys

import pytest
from plan.test_memory_plan import model_of

from hugectr.model import memory_trial
from hugectr.model.memory_trial import take_memory
from hugectr.plan import MemoryEntry, MemoryPlan

MIB = 1 << 20


def plan_of(*entries):
    return MemoryPlan(tuple(MemoryEntry(*entry) for entry in entries), ())


def test_a_model_that_fits():
    plan = model_of().plan(fits=True)
    assert plan.fits.fits
    assert plan.fits.bytes == plan.memory.bytes
    assert "it fits now" in str(plan)
    assert model_of().plan().fits is None


def limited(plan, most):
    """take_memory of a plan where processes have so many bytes of address space."""
    script = (
        "import resource, sys\n"
        f"resource.setrlimit(resource.RLIMIT_AS, ({most}, {most}))\n"
        "from hugectr.model.memory_trial import take_memory\n"
        "from hugectr.plan import MemoryEntry, MemoryPlan\n"
        f"fit = take_memory(MemoryPlan(tuple(MemoryEntry(*e) for e in {plan!r}), ()))\n"
        "print(fit.fits, fit.device, fit.bytes, fit.why, sep='|')\n"
    )
    few = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # threads take address space too
    done = subprocess.run(
        [sys.executable, "-c", script], env=few, capture_output=True, text=True, check=True
    )
    return done.stdout.strip().split("|")


def test_what_does_not_fit_is_named():
    entries = [
        (0, "cpu:0", "t", "vectors", 100 * MIB),
        (0, "cpu:0", "t", "index", 20 * MIB),
        (0, "host", "t", "rows in host memory", 6000 * MIB),
        (1, "cpu:0", "t", "vectors", 1 << 60),  # another process's
    ]
    assert limited(entries[:2] + entries[3:], 4000 * MIB) == ["True", "", str(120 * MIB), ""]
    fits, device, size, why = limited(entries, 4000 * MIB)
    assert (fits, device, size) == ("False", "host", str(6000 * MIB))
    assert "a model's plan" in why
    assert resource.getrlimit(resource.RLIMIT_AS)[0] != 4000 * MIB  # it was another process's


def test_what_the_system_says_it_has_does_not_decide():
    """More than the machine has is not refused for being more: it was tried."""
    has = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    fits, _, _, why = limited([(0, "cpu:0", "t", "vectors", 2 * has)], 2000 * MIB)
    assert fits == "False"
    assert str(has) not in why


def test_devices_are_taken_together_and_one_after_the_other(monkeypatch):
    seen = []

    def run(command, **_):
        seen.append(json.loads(command[-1]))
        return subprocess.CompletedProcess(command, 0, '0\n1\n2\n"the text"\n', "")

    monkeypatch.setattr(memory_trial.subprocess, "run", run)
    fit = take_memory(
        plan_of(
            (0, "host", "t", "rows in host memory", 5),
            (0, "cuda:1", "t", "vectors", 3),
            (0, "cuda:0", "network", "dense weights", 2),
            (0, "cuda:1", "t", "index", 4),
        )
    )
    assert seen == [[["cuda", 0, False, 2], ["cuda", 1, False, 7], ["cuda", 0, True, 5]]]
    assert (fit.fits, fit.device, fit.bytes, fit.why) == (False, "host", 5, "the text")


def test_a_process_that_the_system_ends_had_too_little(monkeypatch):
    end = f"import os; print(0, flush=True); os.kill(os.getpid(), {int(signal.SIGKILL)})"
    monkeypatch.setattr(memory_trial, "COMMAND", (sys.executable, "-c", end))
    fit = take_memory(plan_of((0, "cpu:0", "t", "vectors", 7)))
    assert (fit.fits, fit.device, fit.bytes) == (False, "cpu:0", 7)
    assert "signal 9" in fit.why
    assert "does not fit" in str(fit)


def test_a_trial_that_fails_otherwise_is_an_error(monkeypatch):
    monkeypatch.setattr(memory_trial, "COMMAND", (sys.executable, "-c", "raise SystemExit(3)"))
    with pytest.raises(RuntimeError, match="the process that takes memory failed"):
        take_memory(plan_of((0, "cpu:0", "t", "vectors", 7)))
