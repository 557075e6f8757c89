# SPDX-License-Identifier: Apache-2.0
"""Strangers at the ports of a job, while its processes meet and after.

In most cases two processes are two threads here (``Mesh``: all of the meeting and of the
connections); in some they are a job that was started as users start one.
"""

from __future__ import annotations

import os
import random
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from faults import stranger_attacks
from faults.harness import ROOT, Case, Ended, FalseSuccess, Hung, Lost, run_script
from faults.tampering import TAMPERING
from hugectr.processes.environment import Place
from hugectr.processes.frames import Link
from hugectr.processes.sockets import Mesh
from hugectr.processes.transfer import Transfer

NAME = "Strangers at the ports of a job: garbage, silence, replay, wrong secret, changed frames"
SECRET = b"5ec2e7" * 8
#: Seconds of each of a process' waits. It meets the other and connects and exchanges three times:
#: who waits longer than all of these hangs, and who is only slow is told so by an error.
LIMIT = 30.0
HANGS = 8 * LIMIT
JOB = Path(__file__).with_name("stranger_job.py")


def free_port() -> int:
    """A port that nobody has now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def place(rank: int, port: int, size: int = 2, secret: bytes = SECRET) -> Place:
    """A process of a job on this machine."""
    return Place(rank, size, rank, ("127.0.0.1", port), "", True, secret)


def in_threads(*works: Callable[[], Any]) -> list[Any]:
    """Results of functions that run at the same time; the first error is raised here."""
    results: list[Any] = [None] * len(works)
    errors: list[BaseException] = []

    def run(index: int, work: Callable[[], Any]) -> None:
        try:
            results[index] = work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=item, daemon=True) for item in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANGS)
        if thread.is_alive():
            raise Hung("a process waits for ever")
    if errors:
        raise errors[0]
    return results


def exchange(link: Link, rank: int, data: bytes) -> bytes:
    """A frame each way."""
    into = bytearray(len(data))
    transfer = Transfer(rank, link, memoryview(data), memoryview(into))
    link.connection.setblocking(True)
    link.connection.settimeout(LIMIT)
    transfer.send()
    while not transfer.done:
        transfer.receive()
    return bytes(into)


def meet_under(attack: str, seed: int, folder: Path) -> None:
    """Two processes meet, connect again, and exchange while strangers are at all their ports."""
    mark = folder / "mark"
    os.environ["HCTR_STRANGER_MARK"] = str(mark)
    port, ports, told, over = free_port(), [], [], threading.Event()
    ports.append(port)

    def stranger(number: int) -> None:
        draw = random.Random(1000 * seed + number)
        work = stranger_attacks.ATTACKS[attack]
        while not over.is_set():
            told.append(work(draw.choice(ports), draw))
            time.sleep(0.001)

    strangers = [threading.Thread(target=stranger, args=(n,), daemon=True) for n in range(3)]
    for thread in strangers:
        thread.start()

    def attacked(times: int, seconds: float) -> None:
        end = time.monotonic() + seconds
        while len(told) < times and time.monotonic() < end:
            time.sleep(0.002)

    def process(rank: int) -> list[bytes]:
        if rank:
            attacked(3, 1.0)  # they are at it while the processes meet
        mesh = Mesh(place(rank, port), LIMIT)
        ports.append(mesh._meeting.listener.address[1])
        got = []
        for name in ("control", "main", "main/data 1"):
            link = mesh.links(name, lambda: None)[1 - rank]
            assert link is not None
            got.append(exchange(link, 1 - rank, bytes([rank]) * 1000))
            attacked(len(told) + 3, 0.3)
        mesh._meeting.listener.close()
        return got

    try:
        found = in_threads(lambda: process(0), lambda: process(1))
    except Exception as error:
        raise Lost(f"the job did not start: {error}") from error
    finally:
        over.set()
    if found != [[bytes([1]) * 1000] * 3, [bytes([0]) * 1000] * 3]:
        raise FalseSuccess("processes have exchanged what they did not send")
    for thread in strangers:
        thread.join(60)
    if any(told):
        raise FalseSuccess(f"a stranger was told {next(filter(None, told)).hex()}")
    if mark.exists():
        raise FalseSuccess("a stranger has run code")


def job_under(engine: str, attack: str, prefix: list[str], folder: Path) -> None:
    """A job as a user starts it, strangers at its ports."""
    words: list[object] = ["launch", "-n", 2, JOB, folder]
    if engine == "launch":
        ended = run_job(attack, folder, "import sys\nfrom hugectr.__main__ import main\n"
                        "sys.exit(main())", words, prefix, {})  # fmt: skip
    else:
        launcher = (ROOT / "tests/py/processes/launcher.py").read_text()
        more = {"HUGECTR_JOB_SECRET": SECRET.decode()} if engine == "plain" else {}
        ended = run_job(attack, folder, launcher, [engine, 2, JOB, folder], prefix, more)
    if ended.status != 0 or "Traceback" in ended.err:
        raise Lost(f"status {ended.status}\n{ended.out}\n{ended.err}")
    if ended.out.count("all right") != 2:
        raise FalseSuccess(ended.out + ended.err)
    if (folder / "mark").exists():
        raise FalseSuccess("a stranger has run code")


def run_job(
    attack: str,
    folder: Path,
    script: str,
    words: list[object],
    prefix: list[str],
    more: dict[str, str],
) -> Ended:
    """Start a job and attack every port that its processes say they listen at."""
    over = threading.Event()

    def stranger(number: int) -> None:
        draw = random.Random(number)
        work = stranger_attacks.ATTACKS[attack]
        while not over.is_set():
            ports = [int(path.read_text() or 0) for path in folder.glob("port-*")]
            if ports:
                work(draw.choice(ports), draw)
                (folder / "attacked").touch()
            time.sleep(0.01)

    strangers = [threading.Thread(target=stranger, args=(n,), daemon=True) for n in range(2)]
    for thread in strangers:
        thread.start()
    try:
        return run_script(
            script + "\n", *words, seconds=HANGS + 60, prefix=prefix,
            environ={"HCTR_STRANGER_MARK": str(folder / "mark"),
                     "HUGECTR_START_TIMEOUT": f"{LIMIT:g}", "HUGECTR_PROCESS_TIMEOUT": f"{LIMIT:g}",
                     "OPENBLAS_NUM_THREADS": "1"} | more,
        )  # fmt: skip
    finally:
        over.set()
        for thread in strangers:
            thread.join(60)


def cases(full: bool) -> list[Case]:
    """All attacks; for ``make faults`` with more seeds, and on jobs of every launcher."""
    found = []
    quick = [name for name in stranger_attacks.ATTACKS if name not in ("flood", "silence", "crowd")]
    for attack in stranger_attacks.ATTACKS if full else quick:
        for seed in range({"flood": 3}.get(attack, 20) if full else 1):
            found.append(
                Case(f"{attack} {seed}", lambda f, a=attack, s=seed: meet_under(a, s, f))  # type: ignore[misc]
            )
    for name, tamper in TAMPERING.items():
        for seed in range(20 if full else 1):
            found.append(Case(f"{name} {seed}", lambda _, t=tamper, s=seed: t(s)))  # type: ignore[misc]
    few = ["prlimit", "--nofile=64"]
    attacks = {"launch": tuple(stranger_attacks.ATTACKS) if full else ("silence",)}
    if full:
        some = ("garbage", "unpickling", "wrong_secret", "silence")
        attacks |= dict.fromkeys(("torchrun", "srun", "plain"), some)
    for engine, names in attacks.items():
        found += [
            Case(
                f"{engine} {attack}",
                lambda f, e=engine, a=attack: job_under(e, a, few, f),  # type: ignore[misc]
            )
            for attack in names
        ]
    return found


if __name__ == "__main__":
    sys.exit("python tests/faults/run.py --only strangers")
