# SPDX-License-Identifier: Apache-2.0
"""Takes the connections of the other processes, and no one else's."""

from __future__ import annotations

import contextlib
import errno
import resource
import select
import socket
import threading
import time

from hugectr.base.errors import CommError
from hugectr.base.threads import start_thread
from hugectr.processes import greeting
from hugectr.processes.deadline import Deadline
from hugectr.processes.environment import Place
from hugectr.processes.frames import Link
from hugectr.processes.stranger_log import StrangerLog

_GREETING_SECONDS = 5.0  # for a whole greeting, however its bytes drop in
_SILENT_SECONDS = 0.2  # a process of this job has said something by then
_PLACES = 64
_IDLE_MS = 1000
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class _Guest:
    """A connection that has not yet shown that it is of this job."""

    def __init__(self, connection: socket.socket, caller: str) -> None:
        self.connection, self.caller = connection, caller
        self.since = time.monotonic()
        self.answerer: greeting.Answerer | None = None
        self._data = b""

    def read(self, secret: bytes, place: Place) -> str:
        """Take what has come; the verdict once the caller is known, "" before.

        Raises
        ------
        OSError
            It is no process of this job, or has gone.
        """
        wanted = greeting.PROOF_BYTES if self.answerer else greeting.HELLO_BYTES
        with contextlib.suppress(BlockingIOError):
            part = self.connection.recv(wanted - len(self._data))
            if not part:
                raise ConnectionError("the connection ended")
            self._data += part
        if len(self._data) < wanted:
            return ""
        data, self._data = self._data, b""
        if self.answerer is not None:
            return self.answerer.check(data)
        self.answerer = greeting.Answerer(secret, place.rank, place.size, data)
        self.connection.send(self.answerer.challenge)  # the first bytes: they fit
        return ""


class Listener:
    """Takes connections and keeps those of the job's processes by name until asked for.

    One thread greets all. A stranger holds one of a small number of places for a few seconds at
    most; when all are held, the one longest silent loses his, or else the oldest. A process that
    loses its place so calls again (``call``).

    Parameters
    ----------
    place : Place
    listening : socket.socket
    secret : bytes
    """

    def __init__(self, place: Place, listening: socket.socket, secret: bytes) -> None:
        self._place, self._socket, self._secret = place, listening, secret
        listening.setblocking(False)
        self.address: tuple[str, int] = listening.getsockname()[:2]
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        places = max(_PLACES, place.size + 16)
        self._most = places if files == resource.RLIM_INFINITY else max(4, min(places, files // 8))
        self._guests: dict[int, _Guest] = {}
        self._poll = select.poll()
        self._poll.register(listening, select.POLLIN)
        self._changed = threading.Condition()
        self._waiting: dict[tuple[bytes, int], Link] = {}
        self._claimed: set[tuple[bytes, int]] = set()
        self._strangers = StrangerLog("{}:{}".format(*self.address))
        self._ended = ""  # why no more connections are taken
        start_thread(self._run, name="hctr-accept", daemon=True)

    def take(self, name: str, rank: int, deadline: Deadline) -> Link:
        """The connection that process ``rank`` opened under a name.

        Raises
        ------
        CommError
            It did not come in time.
        """
        key = (greeting.name_digest(name), rank)
        with self._changed:
            while key not in self._waiting:
                deadline.check()
                if self._ended:
                    raise CommError(f"process {self._place.rank} takes no connections any more: "
                                    f"{self._ended}")  # fmt: skip
                if deadline.left() < 0:
                    host, port = self.address
                    raise CommError(
                        f"process {rank} did not connect within {deadline.limit:g} s: it has not "
                        "started, has ended, has another secret, or can not reach process "
                        f"{self._place.rank} at {host}:{port} (HUGECTR_START_TIMEOUT sets the "
                        "limit)"
                    )
                self._changed.wait(min(deadline.SLICE, max(0.0, deadline.left())))
            return self._waiting.pop(key)

    def close(self) -> None:
        """Take no more connections."""
        self._end("it was closed")

    def _end(self, why: str) -> None:
        with self._changed:
            self._ended = self._ended or why
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            while not self._ended:
                self._turn()
        except Exception as error:  # whoever waits for a connection must learn of it
            self._end(f"{type(error).__name__}: {error}")
        finally:
            for guest in self._guests.values():
                guest.connection.close()
            self._socket.close()

    def _turn(self) -> None:
        """Wait for something to come, and handle it."""
        now = time.monotonic()
        oldest = min((guest.since for guest in self._guests.values()), default=now)
        wait = 1 + int(1e3 * (oldest + _GREETING_SECONDS - now))
        ready = self._poll.poll(min(_IDLE_MS, max(0, wait)))
        listening = self._socket.fileno()
        for number, _ in ready:
            if number != listening and number in self._guests:
                self._hear(number)
        late = time.monotonic() - _GREETING_SECONDS
        for number in [n for n, guest in self._guests.items() if guest.since <= late]:
            self._dismiss(number, f"it has not shown who it is in {_GREETING_SECONDS:g} s")
        if any(number == listening for number, _ in ready):
            self._accept()

    def _accept(self) -> None:
        try:
            connection, caller = self._socket.accept()
        except OSError as error:
            if error.errno in _NO_DESCRIPTORS and not self._make_room():
                time.sleep(0.05)  # they are with others: it stays in the queue of the system
            return
        while len(self._guests) >= self._most:
            self._make_room()
        connection.setblocking(False)
        self._guests[connection.fileno()] = _Guest(connection, f"{caller[0]}:{caller[1]}")
        self._poll.register(connection, select.POLLIN)

    def _make_room(self) -> bool:
        """Dismiss a guest; False when there is none."""
        by_age = sorted(self._guests.items(), key=lambda item: item[1].since)
        silent_since = time.monotonic() - _SILENT_SECONDS
        silent = [n for n, g in by_age if g.answerer is None and g.since < silent_since]
        for number in (silent or [n for n, _ in by_age])[:1]:
            self._dismiss(number, "too many are there that have not shown who they are")
        return bool(by_age)

    def _leave(self, number: int) -> _Guest:
        self._poll.unregister(number)
        return self._guests.pop(number)

    def _dismiss(self, number: int, why: str) -> None:
        guest = self._leave(number)
        guest.connection.close()
        self._strangers.refused(guest.caller, why)

    def _hear(self, number: int) -> None:
        guest = self._guests[number]
        try:
            verdict = guest.read(self._secret, self._place)
            if verdict:
                self._decide(guest, verdict)
        except OSError as error:
            said = type(error) in (ConnectionError, greeting.Stranger)  # else the system said it
            self._dismiss(number, str(error) if said else "the connection broke")
            return
        if verdict:
            self._leave(number)

    def _decide(self, guest: _Guest, verdict: str) -> None:
        """Answer a process of this job: let it in, or say why not."""
        assert guest.answerer is not None  # its proof has come
        key = (guest.answerer.name, guest.answerer.rank)
        if verdict == greeting.ACCEPTED and key in self._claimed:
            verdict = greeting.TAKEN
        guest.connection.send(guest.answerer.answer(verdict))
        if verdict != greeting.ACCEPTED:
            raise ConnectionError(verdict)
        guest.connection.setblocking(True)
        guest.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._changed:
            self._claimed.add(key)
            self._waiting[key] = Link(guest.connection, *guest.answerer.directions())
            self._changed.notify_all()
