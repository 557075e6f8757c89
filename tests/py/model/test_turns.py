# SPDX-License-Identifier: Apache-2.0
"""Calls of several threads on one object, and objects that were not made, copied or forked."""

import _thread
import copy
import inspect
import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from model.nets import Setup, make_model

import hugectr
from hugectr import _core
from hugectr._core import Turn
from hugectr.data import from_arrays


def model_setup():
    draw = np.random.default_rng(1)
    data = from_arrays(
        label=draw.integers(0, 2, (256, 1)),
        dense=draw.normal(size=(256, 3)),
        sparse={"keys": draw.integers(0, 50, (256, 4))},
    )
    return Setup("tower", data, data, slots=4, dense_dim=3, batch=32)


@pytest.fixture(scope="module")
def model():
    model = make_model(model_setup())
    model.train()
    return model


def in_thread(work):
    """What work() returns in another thread."""
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join(60)
    return found[0]


def had(turn, seconds):
    """Whether the turn could be taken; it is given back."""
    if not turn.take(seconds):
        return False
    turn.give()
    return True


# --- turns ----------------------------------------------------------------------------------------


def test_a_thread_that_comes_back_at_once_waits_for_those_before_it():
    turn, order, ready = Turn("thing"), [], threading.Event()

    def other():
        ready.set()
        with turn:
            order.append("other")

    with turn:
        thread = threading.Thread(target=other)
        thread.start()
        ready.wait()
        while not turn_is_wanted(turn, thread):
            pass
    with turn:
        order.append("again")
    thread.join()
    assert order == ["other", "again"]


def turn_is_wanted(turn, thread):
    """Whether the thread stands in the queue: it is in take(), which it leaves with the turn."""
    frame = sys._current_frames().get(thread.ident)
    names = []
    while frame is not None:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names[:1] == ["other"] and not in_thread(lambda: had(turn, 0.05))


def test_the_same_thread_may_take_it_again():
    turn = Turn("thing")
    with turn, turn:
        assert not in_thread(lambda: had(turn, 0.05))
    assert in_thread(lambda: had(turn, 0.05))


class InterruptedTurn:
    """An interrupt is pending when take() returns: it is raised at the next look for one."""

    def __init__(self):
        self.given = 0

    take = staticmethod(_thread.interrupt_main)  # looks for none itself

    def give(self):
        self.given += 1


def test_an_interrupt_just_after_the_turn_was_had_gives_it_back():
    # A shell has interrupts ignored in what it starts in the background.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        interrupt_just_after_the_turn_was_had()
    finally:
        signal.signal(signal.SIGINT, before)


def interrupt_just_after_the_turn_was_had():
    class Thing:
        def call(self):
            raise AssertionError("the interrupt comes at the first step of this")

    thing = _core.serialised(Thing)()
    thing._turn = InterruptedTurn()
    with pytest.raises(KeyboardInterrupt):
        thing.call()
    assert thing._turn.given == 1


def test_an_error_gives_the_turn_back(model):
    with pytest.raises(hugectr.InvalidArgument):
        model.tensor("no such tensor")
    assert in_thread(lambda: had(model.exclusive(), 5.0))


def test_other_threads_wait_while_one_has_the_model(model):
    with model.exclusive():
        steps = model.session.step()
        thread = threading.Thread(target=model.train)
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
        assert not model.save_is_under_way()  # from any thread, without waiting
        assert in_thread(model.save_is_under_way) is False
        assert model.session.step() == steps
    thread.join(60)
    assert model.session.step() == steps + 1


def test_fit_lets_others_in_between_two_steps(model, tmp_path):
    steps = []

    def fit():
        model.fit(max_iter=400, display=0, eval_interval=0, snapshot=0)

    thread = threading.Thread(target=fit)
    first = model.session.step()
    thread.start()
    while thread.is_alive():
        with model.exclusive():
            steps.append(model.session.step())
            model.get_incremental_model()
    thread.join()
    between = [s for s in steps if first < s < first + 400]
    assert len(set(between)) >= 3, steps
    assert model.session.step() == first + 400


def test_every_public_call_takes_turns_or_says_that_it_does_not():
    free = {
        name
        for name, value in inspect.getmembers(hugectr.Model, inspect.isroutine)
        if not name.startswith("_") and not hasattr(value, "__wrapped__")
    }
    assert free == {"exclusive", "fit", "save", "save_is_under_way", "wait_for_save"}
    for part, without in (
        (_core.Session, {"leave", "has_left"}),
        (_core.SessionTable, set()),
        (_core.SessionNetwork, set()),
        (_core.SessionReader, set()),
    ):
        raw = {n for n, v in vars(part).items() if callable(v) and n[0] != "_"}
        assert raw
        assert {n for n in raw if not hasattr(getattr(part, n), "__wrapped__")} == without


def test_signatures_and_documentation_are_those_of_the_calls():
    assert list(inspect.signature(hugectr.Model.tensor).parameters)[:3] == ["self", "name", "train"]
    assert hugectr.Model.train.__doc__.startswith("Train one batch")


# --- copies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_copy_is_refused_with_the_way_out(model, duplicate):
    session = model.session
    for thing in (model, session, session.table(0), session.network, session.reader):
        with pytest.raises(TypeError, match=r"save\(\).*load.*resume\(\)"):
            duplicate(thing)


# --- objects that were not made -------------------------------------------------------------------

UNMADE = """
import inspect, itertools, sys
from hugectr import _core, Model
classes = [c for c in vars(_core).values() if inspect.isclass(c)] + [Model]
for cls in classes:
    if issubclass(cls, BaseException):
        continue
    try:
        thing = cls.__new__(cls)
    except Exception as error:
        print(cls.__name__, "refused:", type(error).__name__)
        continue
    for name in dir(thing):
        if name in ("__class__", "__new__", "__init_subclass__", "__subclasshook__", "__dir__"):
            continue
        some = ((), (0,), ("x",), (None,), (0, 0), (0, thing, 0, 1), ({}, []), (None,) * 3)
        for arguments in some:
            try:
                value = getattr(thing, name)
                if callable(value):
                    value(*arguments)
            except Exception:
                pass
    print(cls.__name__, "held")
print("over")
"""

ARGUMENTS = """
import itertools, sys
import numpy as np
sys.path[:0] = sys.argv[1:]
from faults.two_threads_job import make
from hugectr import _core
model = make(); model.train()
session, view = model.session, model.tensor("relu1")
order = session.table(0).order()
odd = [None, -1, 0, 10**6, "x", "", b"x", [], {}, 1.5, np.zeros(3), order, view, object()]
skipped = {"stop", "leave"}
for thing in (session, session.table(0), session.network, session.reader, view, order):
    for name in dir(type(thing)):
        if name.startswith("_") or name in skipped:
            continue
        for count in (0, 1, 2, 3):
            for arguments in itertools.islice(itertools.product(odd, repeat=count), 250):
                try:
                    value = getattr(thing, name)
                    value(*arguments) if callable(value) else None
                except Exception:
                    pass
print("over")
"""


def run_child(folder, code, *arguments):
    """Runs in a folder of its own: some of the calls save files under any name."""
    root = Path(hugectr.__file__).parents[1]
    environ = os.environ | {"PYTHONPATH": str(root), "HUGECTR_LOG_LEVEL": "4"}
    command = [sys.executable, "-X", "faulthandler", "-c", code, *arguments]
    return subprocess.run(
        command, env=environ, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )


def test_objects_that_were_never_made_are_refused_not_used(tmp_path):
    done = run_child(tmp_path, UNMADE)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.endswith("over\n")
    parts = ("SessionTable", "SessionNetwork", "SessionReader")
    for name in ("Session", *parts, "Network", "TensorView", "LearningRateScheduler", "Turn"):
        assert f"{name} refused" in done.stdout, done.stdout


def test_odd_arguments_are_errors(tmp_path):
    tests = Path(__file__).parents[2]
    done = run_child(tmp_path, ARGUMENTS, str(tests), str(tests / "py"))
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.endswith("over\n")


def test_rows_are_not_read_by_the_order_of_another_model(model):
    other = make_model(model_setup())
    other.train()
    order = model.session.table(0).order()
    with pytest.raises(hugectr.InvalidArgument, match="the order of another table"):
        other.session.table(0).read(order, 0, len(order))
    assert len(model.session.table(0).read(order, 0, len(order))["keys"]) == len(order)


def test_a_second_init_changes_nothing(model):
    session = model.session
    session.__init__(1, 2, 3)
    assert len(session.tables()) == 1
    assert model.train()
