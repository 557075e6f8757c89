# SPDX-License-Identifier: Apache-2.0
"""Something long that is interrupted: interrupts_job.py ACT FOLDER MILLISECONDS."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np

import hugectr
from faults.two_threads_job import make


def train(model, folder):
    while True:
        model.train()


def evaluate(model, folder):
    while True:
        model.evaluate()


def save(model, folder):
    for number in range(100000):
        model.save(folder / "saved" / str(number % 3))
        model.train()


def save_background(model, folder):
    while True:
        model.train()
        model.save(folder / "background", background=True, keep_last=2)


def resume(model, folder):
    while True:
        model.resume(folder / "before")


def fit(model, folder):
    while True:
        model.fit(
            max_iter=50,
            display=5,
            eval_interval=10,
            snapshot=0,
            checkpoint_dir=folder / "fit",
            checkpoint_interval=7,
            keep_last=2,
        )


def restart(model, folder):
    while True:
        model.restart_training_data()
        model.train()
        model.restart_evaluation_data()


def build(model, folder):
    while True:
        make()


def lock(model, folder):
    """Waits for a model that another thread keeps."""
    over, held = threading.Event(), threading.Event()

    def keep():
        with model.exclusive():
            held.set()
            over.wait()

    thread = threading.Thread(target=keep)
    try:  # the interrupt may come before the thread has the model
        thread.start()
        held.wait()
        model.train()
    finally:
        over.set()
        if thread.ident is not None:
            thread.join()


def interrupt(seconds):
    time.sleep(seconds)
    os.kill(os.getpid(), signal.SIGINT)


def main():
    act, folder, seconds = globals()[sys.argv[1]], Path(sys.argv[2]), float(sys.argv[3]) / 1e3
    # A shell that starts jobs in the background has them ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    model = make()
    for _ in range(3):
        model.train()
    model.evaluate()
    model.save(folder / "before")
    killer = threading.Thread(target=interrupt, args=(seconds,))
    try:
        killer.start()
        act(model, folder)
    except KeyboardInterrupt:
        print("interrupted")
    killer.join()
    try:
        model.wait_for_save()
        assert model.train()
        assert np.isfinite(model.get_current_loss())
        assert np.isfinite(model.evaluate()["AUC"])
    except hugectr.InvalidArgument as error:
        # A clear word, and the way out works: what was in the middle of being put back.
        print("refused:", error)
    for place in folder.iterdir():
        for run in [place, *place.iterdir()] if place.is_dir() else []:
            newest = hugectr.checkpoints.latest(run) if run.is_dir() else None
            if newest is not None:
                hugectr.checkpoints.verify(newest)  # what is published is whole
    model.resume(folder / "before")
    assert model.session.step() == 3
    assert model.train()
    print("ended: usable")


if __name__ == "__main__":
    main()
