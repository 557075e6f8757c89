# SPDX-License-Identifier: Apache-2.0
"""A failure where no thread is to be had for what it brings about."""

import threading

import pytest

from hugectr.processes import failure


class Session:
    """Notes that it was made to leave, and in which thread."""

    def __init__(self):
        self.left = []

    def leave(self, reason):
        self.left.append((reason, threading.current_thread()))


@pytest.mark.parametrize("text", ["can't start new thread", "interpreter is shutting down"])
def test_sessions_leave_in_this_thread_then(monkeypatch, text):
    def start(self):
        raise RuntimeError(text)

    session, job = Session(), failure.JobFailure(60.0)
    job.add_session(session)
    monkeypatch.setattr(threading.Thread, "start", start)
    assert job.set("over", remote=False)
    assert session.left == [("over", threading.current_thread())]


def test_sessions_leave_in_threads_of_the_package(monkeypatch):
    started, start_thread = [], failure.start_thread

    def start(work, *arguments, name, daemon):
        started.append((name, daemon))
        return start_thread(lambda: None, name=name, daemon=daemon)

    monkeypatch.setattr(failure, "start_thread", start)
    session, job = Session(), failure.JobFailure(60.0)
    job.add_session(session)
    assert job.set("over", remote=False)
    assert started == [("hctr-failure", True)] * 2
