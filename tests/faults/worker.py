# SPDX-License-Identifier: Apache-2.0
"""A process that tries many cases, one after the other: what takes long to set up is set up once.

The script reads a line a case and answers with a line ``ok``, or ``KIND TEXT``. What ends or hangs
is told as such, and a new process takes the next case.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

from faults.harness import ROOT, Broken, Crashed, FalseSuccess, Hung, Lost

KINDS: dict[str, type[Broken]] = {
    "crash": Crashed,
    "loss": Lost,
    "success": FalseSuccess,
}


class Worker:
    """Runs a script of this folder, again when it has ended.

    Parameters
    ----------
    script : str
        Name of the file.
    seconds : float
        After which a case counts as hanging.
    """

    def __init__(self, script: str, seconds: float = 30.0) -> None:
        self._script, self._seconds = Path(__file__).with_name(script), seconds
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str] = queue.Queue()

    def _start(self) -> subprocess.Popen[str]:
        paths = [str(ROOT), str(ROOT / "tests" / "py"), str(ROOT / "tests")]
        process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", str(self._script)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._answers = queue.Queue()
        threading.Thread(target=_forward, args=(process.stdout, self._answers), daemon=True).start()
        self._errors: queue.Queue[str] = queue.Queue()
        threading.Thread(target=_forward, args=(process.stderr, self._errors), daemon=True).start()
        if self._next(process, 120.0) != "ready":
            raise Crashed("the script did not begin\n" + self._tail())
        return process

    def _next(self, process: subprocess.Popen[str], seconds: float) -> str:
        """The next answer of the script; other lines are its log."""
        while True:
            try:
                line = self._answers.get(timeout=seconds)
            except queue.Empty:
                process.send_signal(signal.SIGABRT)  # the stacks of all threads
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(10)
                self.stop()
                raise Hung(f"after {seconds:g} s\n{self._tail()}") from None
            if not line:  # the end
                status = process.wait()
                self._process = None
                raise Crashed(f"the process ended with {status}\n{self._tail()}")
            if line.startswith("> "):
                return str(json.loads(line[2:]))

    def _tail(self) -> str:
        lines = []
        with contextlib.suppress(queue.Empty):
            while True:
                lines.append(self._errors.get(timeout=0.2))
        return "".join(lines)[-6000:]

    def run(self, *words: object) -> None:
        """Try a case; raises what was not held."""
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        process.stdin.write(json.dumps([str(word) for word in words]) + "\n")
        process.stdin.flush()
        answer = self._next(process, self._seconds)
        if answer != "ok":
            kind, _, text = answer.partition(" ")
            raise KINDS[kind](text)

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


def _forward(lines: IO[str], answers: queue.Queue[str]) -> None:
    for line in lines:
        answers.put(line)
    answers.put("")


# --- in the process -------------------------------------------------------------------------------


def answer(text: str) -> None:
    """Tell the other side."""
    print("> " + json.dumps(text), flush=True)


def serve(case: object) -> None:
    """Try cases until nobody asks any more; ``case`` is called with the words, and raises."""
    answer("ready")
    for line in sys.stdin:
        try:
            case(*json.loads(line))  # type: ignore[operator]
            answer("ok")
        except Broken as broken:
            kinds = {kind: name for name, kind in KINDS.items()}
            answer(f"{kinds[type(broken)]} {broken}")
        except Exception as error:  # an error of ours that is none of the kinds
            answer(f"crash {type(error).__name__}: {str(error)[:2000]}")
