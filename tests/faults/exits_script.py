# SPDX-License-Identifier: Apache-2.0
"""Forks children that each make a model and come to the end of the interpreter in one way.

``exits.py`` runs it: FORMAT WAY FOLDER COUNT. The last line of the output is a JSON list of the
children's exit statuses, null for one that did not end.
"""

import atexit
import builtins
import gc
import json
import os
import random
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

kind, way, folder, count = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
alive = []


def touched():
    """What a function of atexit does that knows nothing of the order."""
    try:
        for one in alive:
            one.eval()
            one.train()
    except ValueError as error:
        print("refused:", error, file=sys.stderr)


if way == "earlier_atexit":
    atexit.register(touched)

from faults.small_data import FILES, model, write  # noqa: E402


def steps(one, number):
    for _ in range(number):
        one.train()
    return number


def endlessly(call):
    while True:
        call()


def end(way):
    """Make what is alive at the end, and possibly end."""
    settings = {"resident_batches": 3} if way == "resident" else {}
    one = model(folder, kind, **settings)
    alive.append(one)
    if way == "only_reading":
        return one.start_data_reading()
    one.eval()
    steps(one, 2)
    if way == "sys_exit":
        sys.exit(3)
    if way == "error":
        raise ValueError("the error of this case")
    if way == "interrupt":
        raise KeyboardInterrupt
    if way == "os_exit":
        os._exit(5)
    if way == "cycle":
        gc.disable()
        alive.clear()
        ring = [one]
        ring.append(ring)
    elif way == "builtins":
        builtins.kept = alive.pop()
    elif way == "generator":
        alive[:] = [held(alive.pop())]
        next(alive[0])
    elif way == "two_models":
        alive.append(model(folder, kind))
        alive[1].train()
    elif way == "thread":
        threading.Thread(target=trains_to_the_end, args=(one,)).start()
    elif way == "system_exit_in_thread":
        threading.Thread(target=sys.exit, args=(4,)).start()
    elif way == "executor":
        ThreadPoolExecutor(2).submit(trains_to_the_end, one)
    elif way == "daemon":
        threading.Thread(target=endlessly, args=(one.train,), daemon=True).start()
        time.sleep(0.05)
    elif way == "daemon_evaluates":
        threading.Thread(target=endlessly, args=(one.eval,), daemon=True).start()
        time.sleep(0.05)
    elif way in ("daemon_saves", "daemon_saves_behind"):
        save = partial(saves, one, folder / str(os.getpid()), way == "daemon_saves_behind")
        threading.Thread(target=endlessly, args=(save,), daemon=True).start()
        time.sleep(random.uniform(0.0, 0.2))  # some end in the first save, some in a later one
    elif way == "later_atexit":
        atexit.register(works_still, one)
    elif way == "model_in_atexit":
        atexit.register(lambda: steps(model(folder, kind), 2))
    return None


def held(one):
    try:
        yield one
    finally:
        del one


def saves(one, into, background):
    one.save(into, background=background, keep_last=1)
    one.train()


def trains_to_the_end(one):
    """A thread that is no daemon is waited for, and what it does goes on until then."""
    if steps(one, 40) != 40:
        os._exit(9)


def works_still(one):
    if not (one.eval() and one.train()):
        os._exit(9)


def wait(child, seconds=60.0):
    """Exit status of a child, None when it does not end."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGABRT)
    os.waitpid(child, 0)
    return None


if kind in FILES:
    write(folder, kind)
statuses = []
for _ in range(count):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        end(way)
        break
    statuses.append(wait(child))
else:
    print(json.dumps(statuses))
