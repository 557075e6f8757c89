# SPDX-License-Identifier: Apache-2.0
"""When one process goes wrong, all end, soon, and the cause is told once."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest
from processes import job

SCRIPT = job.TESTS / "processes" / "failing_job.py"
WRONG = 1  # the process that goes wrong

#: What goes wrong, and what must be said of it.
CAUSES = {
    "raise": r"KeyError: 'the weather'",
    # Open MPI and our launcher; MPICH, which names no rank.
    "kill": r"(?:rank|process) 1\b.{0,80}(?:signal 9|SIGKILL)|EXIT CODE: 9",
    "stop": r"process 1 did not take part in an exchange within 4 s",
    "sleep": r"process 1 did not take part in an exchange within 4 s",
    "exit": r"process 1 (has ended|did not take part)",
    "leave": r"process 1 (has ended|did not take part)",
}


def alive(pid):
    """Whether a process runs (a zombie does not)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until_gone(pids):
    end = time.monotonic() + 20
    while any(map(alive, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    return [pid for pid in pids if alive(pid)]


def pids_in(text):
    return [int(pid) for pid in re.findall(r"pid (\d+) of", text)]


@pytest.mark.parametrize("what", CAUSES)
@pytest.mark.parametrize("engine", job.ENGINES)
def test_all_end_when_one_goes_wrong(engine, what):
    status, out, err = job.run(engine, 3, SCRIPT, what, WRONG, HUGECTR_PROCESS_TIMEOUT="4")
    pids = pids_in(out)
    assert len(pids) == 3, out + err
    assert status != 0, out + err
    found = re.findall(CAUSES[what], f"{err} {out}".replace("\n", " "))
    assert len(found) == 1, err
    assert wait_until_gone(pids) == []


def run_stuck_job(*arguments):
    words = [sys.executable, job.TESTS / "processes" / "stuck_job.py", *map(str, arguments)]
    return subprocess.run(
        words, env=job.environment(), capture_output=True, text=True, timeout=60, check=False
    )


WHO = pytest.mark.parametrize("who", ["local", "remote"])


@WHO
@pytest.mark.parametrize("notices", ["notices", "sleeps"])
def test_a_process_whose_devices_do_not_let_go_is_ended(who, notices):
    """As a GPU may not: its script can not notice, whatever it would do."""
    done = run_stuck_job(who, 50, notices)
    assert done.returncode == 1
    assert "still here" not in done.stdout
    assert done.stderr.count("process 1 hangs; the GPUs do not let go of what waits") == 1


@WHO
def test_a_process_that_takes_no_notice_is_ended(who):
    done = run_stuck_job(who, 0, "sleeps")
    assert done.returncode == 1
    assert "still here" not in done.stdout
    cause = {"local": "process 1 hangs", "remote": "the job has failed"}[who]
    assert f"hugectr: {cause}; this process is ended: it took no notice for 2 s" in done.stderr


@WHO
def test_a_process_that_notices_goes_on(who):
    done = run_stuck_job(who, 0.2, "notices")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split("\n")[:2] == ["noticed: process 1 hangs", "still here"]


def test_scripts_that_catch_the_failure_go_on():
    script = job.TESTS / "processes" / "caught_job.py"
    _, out, err = job.run("launch", 2, script, HUGECTR_PROCESS_TIMEOUT="2", hangs_after=60)
    for rank in range(2):
        assert f"process {rank} caught: " in out, err
        assert f"process {rank} goes on" in out, err


def test_the_status_of_a_launcher_says_what_ended_it(tmp_path):
    script = tmp_path / "waits.py"
    script.write_text("import time\nprint('waiting', flush=True)\ntime.sleep(60)\n")
    for number in (signal.SIGTERM, signal.SIGINT):
        # Of who runs tests in the background SIGINT is ignored, and what they start inherits that.
        before = signal.signal(number, signal.default_int_handler)
        try:
            running = job.start("launch", 2, script)
        finally:
            signal.signal(number, before)
        assert [running.stdout.readline() for _ in range(2)] == ["waiting\n"] * 2
        running.send_signal(number)
        running.communicate(timeout=60)
        assert running.returncode == 128 + number


def test_no_process_outlives_the_launcher():
    running = job.start("launch", 3, SCRIPT, "nothing", WRONG)
    try:
        seen = ""
        while len(pids_in(seen)) < 3:
            line = running.stdout.readline()
            assert line, running.stderr.read()
            seen += line
        os.kill(running.pid, signal.SIGKILL)
        assert wait_until_gone(pids_in(seen)) == []
    finally:
        running.kill()
        running.communicate()


def test_a_process_that_never_starts_is_named():
    """Rank 0 of two, alone: as torchrun or srun might leave it."""
    variables = {
        "RANK": "0",
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "LOCAL_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "0",
        "HUGECTR_START_TIMEOUT": "1",
    }
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "nothing", "0"],
        env=job.environment(**variables),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "process 1 did not connect within 1 s" in done.stderr


def test_a_script_must_be_there():
    status, _, err = job.run("launch", 2, "no_such_script.py")
    assert status == 2
    assert "no_such_script.py: there is no such file" in err


@pytest.mark.parametrize("first", [True, False], ids=["at once", "while they wait"])
def test_who_ends_well_before_joining_is_not_waited_for(tmp_path, first):
    """The launcher knows that it has ended; the start limit is 60 s."""
    script = tmp_path / "script.py"
    script.write_text(
        "import os, time\n"
        "from hugectr import processes\n"
        f"time.sleep(2.0 if (os.environ['RANK'] == '1') != {first} else 0)\n"
        "if os.environ['RANK'] != '1':\n"
        "    processes.current()\n"
    )
    status, out, err = job.run("launch", 3, script, hangs_after=40)
    assert status == 1, out + err
    assert "process 1 ended with status 0 before it joined them" in err
    assert "Traceback" not in err


def test_the_launcher_names_the_process_with_the_cause(tmp_path):
    """Also when those that end because of it are gone first."""
    script = tmp_path / "script.py"
    script.write_text(
        "import atexit, time\n"
        "from hugectr import processes\n"
        "group = processes.current()\n"
        "if group.rank == 2:\n"
        "    atexit.register(time.sleep, 1.5)\n"
        "    raise ValueError('two is bad')\n"
        "group.all_gather(b'')\n"
    )
    status, out, err = job.run("launch", 4, script, hangs_after=40)
    assert status == 1, out + err
    assert err.count("ValueError: two is bad") == 1, err
    assert "hugectr launch: process 2 ended with status 1; the other 3 have ended too" in err


def test_processes_that_never_meet_may_end_as_they_like(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import os, time\ntime.sleep(0.3 * int(os.environ['RANK']))\n")
    status, out, err = job.run("launch", 3, script, hangs_after=40)
    assert (status, out, err) == (0, "", "")


LEAVES_WORKERS = """
import os, signal, subprocess, sys
place = sys.argv[1]
worker = subprocess.Popen([sys.executable, "-c", (
    "import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', 'import time; "
    "time.sleep(600)']); print(p.pid, flush=True); time.sleep(600)")], stdout=subprocess.PIPE)
with open(f"{place}/{os.environ['RANK']}", "w") as file:
    file.write(f"{worker.pid} {int(worker.stdout.readline())}")
if os.environ["RANK"] == "1":
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_workers_of_a_killed_process_do_not_stay(tmp_path):
    """Nor those of one that ends well, nor their own."""
    script = tmp_path / "script.py"
    script.write_text(LEAVES_WORKERS)
    command = [sys.executable, "-m", "hugectr", "launch", "-n", "2", str(script), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, timeout=100, check=False)
    assert done.returncode == 128 + signal.SIGKILL
    for rank in range(2):
        for pid in map(int, (tmp_path / str(rank)).read_text().split()):
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)
