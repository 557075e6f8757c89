# SPDX-License-Identifier: Apache-2.0
"""A process that forks in the middle of its work: forks_job.py CASE FOLDER."""

import multiprocessing
import os
import sys
import threading
import time
from pathlib import Path

import numpy as np

import hugectr
from faults.two_threads_job import calls, make
from hugectr import _core


def refuses(call, kind, what):
    """The call raises an error of this kind that names the fork."""
    try:
        call()
    except kind as error:
        if "forked" not in str(error):
            raise AssertionError(f"{what}: {error}") from error
        return
    raise AssertionError(f"{what} was not refused")


def in_child(work):
    """Run work() in a forked child; its exit status, by way of the interpreter's normal end."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            work()
        except SystemExit:
            raise
        except BaseException:
            import traceback

            traceback.print_exc()
            sys.exit(3)
        sys.exit(0)  # with atexit, and all objects go
    end = time.monotonic() + 60
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert os.WIFEXITED(status), f"the child died of signal {os.WTERMSIG(status)}"
            assert os.WEXITSTATUS(status) == 0, os.WEXITSTATUS(status)
            return
        time.sleep(0.01)
    os.kill(child, 6)
    raise AssertionError("the child hangs")


def usable(model):
    """The parent's model trains on."""
    for _ in range(3):
        assert model.train()
    assert np.isfinite(model.get_current_loss())


def every_call(model, folder):
    """Each call on the parent's model is refused in the child."""
    known = calls(model, folder)
    view = model.tensor("relu1")

    def work():
        for name, call in known.items():
            refuses(call, hugectr.InvalidArgument, name)
        for use in (view.wait, view.copy_to_host, lambda: np.asarray(view)):
            refuses(use, hugectr.DeviceError, "a view")

    in_child(work)


def deleted(model, folder):
    """The parent's model and its views go in the child."""
    view = [model.tensor("relu1"), model.table("emb")]
    models = [model]

    def work():
        nonlocal view
        models.clear()
        view = None

    in_child(work)


def new_model(model, folder):
    """A model made in the child trains, saves, resumes."""

    def work():
        own = make()
        usable(own)
        own.evaluate()
        own.save(folder / f"child-{os.getpid()}")  # each is a run of its own
        own.resume(folder / f"child-{os.getpid()}")
        a = np.ones((64, 64), np.float32)
        c = np.zeros((64, 64), np.float32)
        _core.run_op("gemm", {"a": a, "b": a, "c": c})
        assert c[0, 0] == 64

    in_child(work)


def while_training(model, folder):
    """Forks while another thread trains: locks of any kind may be held."""
    over = threading.Event()

    def train():
        while not over.is_set():
            model.train()

    thread = threading.Thread(target=train)
    thread.start()
    try:
        for _ in range(3):
            new_model(None, folder)
            in_child(lambda: None)
            in_child(lambda: refused(model))
    finally:
        over.set()
        thread.join()


def refused(model):
    refuses(model.train, hugectr.InvalidArgument, "train")


def while_saving(model, folder):
    """Forks while a save in the background writes."""
    for number in range(3):
        model.train()
        model.save(folder / "background", background=True)
        in_child(lambda: refused(model))
        new_model(None, folder / str(number))
    model.wait_for_save()
    hugectr.checkpoints.verify(hugectr.checkpoints.latest(folder / "background"))


def _double(x):
    return 2 * x


def pool(model, folder):
    """multiprocessing's own workers, forked, as a loader of data has them."""
    with multiprocessing.get_context("fork").Pool(2) as workers:
        assert workers.map(_double, range(20)) == [2 * x for x in range(20)]
        usable(model)
        assert workers.map(_double, range(20)) == [2 * x for x in range(20)]


def grandchild(model, folder):
    """A child forks in its turn."""
    in_child(lambda: new_model(None, folder))

    def work():
        own = make()
        usable(own)
        in_child(lambda: (refused(own), refused(model)))
        usable(own)

    in_child(work)


def network(model, folder):
    """Objects below a model: a network, operations, a session."""
    layer = {"type": "ReLU", "bottoms": ["x"], "tops": ["y"], "attributes": {}}
    net = _core.Network({"x": (4, 4)}, [layer])
    net.forward({"x": np.ones((4, 4), np.float32)})
    session = model.session

    def work():
        nonlocal net
        for call in (lambda: net.tensor("y"), session.step, session.train):
            refuses(call, hugectr.InvalidArgument, "a call below the model")
        session.leave("no matter")
        net = None

    in_child(work)


CASES = {
    f.__name__: f
    for f in (
        every_call,
        deleted,
        new_model,
        while_training,
        while_saving,
        pool,
        grandchild,
        network,
    )
}

if __name__ == "__main__":
    parents = make()
    usable(parents)
    CASES[sys.argv[1]](parents, Path(sys.argv[2]))
    usable(parents)
    print("ended: done")
