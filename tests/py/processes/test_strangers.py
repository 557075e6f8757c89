# SPDX-License-Identifier: Apache-2.0
"""Who calls and is not of the job is refused, and a line says so: one, however many call."""

import socket
import threading
import time

import pytest

from hugectr.processes import stranger_log
from hugectr.processes.environment import Place
from hugectr.processes.greeting import HELLO_BYTES
from hugectr.processes.listener import Listener
from hugectr.processes.stranger_log import StrangerLog

SECRET = b"5ec2e7" * 8


@pytest.fixture
def lines(monkeypatch):
    found: list[str] = []
    monkeypatch.setattr(stranger_log.log, "warning", found.append)
    return found


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"\x1b[2J" * HELLO_BYTES, "no greeting of this package"),
        (b"\xff" * 8, "the connection ended"),
        (b"", "the connection ended"),
    ],
)
def test_a_stranger_is_refused_with_a_line(lines, sent, why):
    listening = socket.create_server(("127.0.0.1", 0))
    listener = Listener(Place(0, 2, 0, ("127.0.0.1", 1), "", True, SECRET), listening, SECRET)
    try:
        for _ in range(20):
            with socket.create_connection(listener.address) as stranger:
                stranger.sendall(sent)
        end = time.monotonic() + 30
        while not lines and time.monotonic() < end:
            time.sleep(0.01)
    finally:
        listener.close()
        for thread in threading.enumerate():
            if thread.name == "hctr-accept":
                thread.join(30)
    assert len(lines) == 1
    assert f"to 127.0.0.1:{listener.address[1]} was refused: {why}" in lines[0]
    assert lines[0].isprintable()


def test_a_flood_is_a_line_a_minute_with_its_number(lines, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(stranger_log.time, "monotonic", lambda: clock[0])
    told = StrangerLog("h:1")
    for _ in range(500):
        told.refused("s:2", "silent")
    assert len(lines) == 1
    clock[0] += 61
    told.refused("s:3", "silent")
    assert len(lines) == 2
    assert lines[1].endswith("(500 since the last such line)")
