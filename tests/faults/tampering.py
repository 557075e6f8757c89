# SPDX-License-Identifier: Apache-2.0
"""Somebody between two processes who records, repeats and changes what goes to and fro."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections.abc import Callable

from faults.harness import FalseSuccess, Lost
from hugectr.base.errors import CommError
from hugectr.processes import greeting
from hugectr.processes.call import call
from hugectr.processes.deadline import Deadline
from hugectr.processes.environment import Place
from hugectr.processes.frames import HEADER, TAG_BYTES, Forged, Link
from hugectr.processes.listener import Listener
from hugectr.processes.transfer import Transfer, WrongLength

SECRET = b"5ec2e7" * 8


def place(rank: int, secret: bytes = SECRET) -> Place:
    """A process of two."""
    return Place(rank, 2, rank, ("127.0.0.1", 0), "", True, secret)


def listener(rank: int = 0, secret: bytes = SECRET) -> Listener:
    """Somebody of the job who listens."""
    return Listener(place(rank), socket.create_server(("127.0.0.1", 0)), secret)


class Between:
    """Passes on what one connection at a port sends, and notes it, by direction."""

    def __init__(self, to: int) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.sent = bytearray()
        self.answered = bytearray()
        threading.Thread(target=self._run, args=(to,), daemon=True).start()

    def _run(self, to: int) -> None:
        near, _ = self._socket.accept()
        far = socket.create_connection(("127.0.0.1", to))
        back = threading.Thread(target=self._pass, args=(far, near, self.answered), daemon=True)
        back.start()
        self._pass(near, far, self.sent)

    @staticmethod
    def _pass(source: socket.socket, target: socket.socket, notes: bytearray) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                notes += data
                target.sendall(data)


def recorded() -> tuple[Listener, Between]:
    """A listener, and the record of process 1's greeting and first frame."""
    listens = listener()
    between = Between(listens.address[1])
    link = call(lambda: (("127.0.0.1", between.port), SECRET), place(1), "main", 0, Deadline(10))
    other = listens.take("main", 1, Deadline(10))
    transfer = Transfer(0, link, memoryview(b"weights!"), memoryview(bytearray()))
    transfer.send()
    time.sleep(0.1)
    other.connection.close()
    link.connection.close()
    return listens, between


def replayed_to_a_listener(seed: int) -> None:
    """What process 1 has sent is sent again, to the same and to a fresh listener."""
    listens, between = recorded()
    fresh = listener()
    for target in (listens, fresh):
        with socket.create_connection(("127.0.0.1", target.address[1]), timeout=10) as again:
            again.sendall(between.sent)
            answer = b""
            with contextlib.suppress(OSError):
                while part := again.recv(4096):
                    answer += part
        if len(answer) > greeting.CHALLENGE_BYTES:
            raise FalseSuccess("a listener has let in a recording")
        with contextlib.suppress(CommError):
            target.take("main", 1, Deadline(0.1))
            raise FalseSuccess("a recording has become process 1")
        target.close()


def replayed_to_a_caller(seed: int) -> None:
    """What a listener has answered is answered again: who calls must not take it for process 0."""
    listens, between = recorded()
    listens.close()
    answers = bytes(between.answered)
    stage = socket.create_server(("127.0.0.1", 0))

    def play() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = stage.accept()
                connection.sendall(answers)
                connection.shutdown(socket.SHUT_WR)

    threading.Thread(target=play, daemon=True).start()
    at = ("127.0.0.1", stage.getsockname()[1])
    with contextlib.suppress(CommError):
        call(lambda: (at, SECRET), place(1), "main", 0, Deadline(0.2))
        raise FalseSuccess("a recording was taken for process 0")
    stage.close()


def false_listener(seed: int) -> None:
    """Somebody without the secret listens where process 0 should, and takes every proof."""
    stage = socket.create_server(("127.0.0.1", 0))
    other_secret = b"another secret, just as long as this one"

    def play() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = stage.accept()
                hello = connection.recv(greeting.HELLO_BYTES, socket.MSG_WAITALL)
                answerer = greeting.Answerer(other_secret, 0, 2, hello)
                connection.sendall(answerer.challenge)
                proof = connection.recv(greeting.PROOF_BYTES, socket.MSG_WAITALL)
                connection.sendall((answerer.answer(greeting.ACCEPTED), proof, bytes(32))[seed % 3])

    threading.Thread(target=play, daemon=True).start()
    at = ("127.0.0.1", stage.getsockname()[1])
    with contextlib.suppress(CommError):
        call(lambda: (at, SECRET), place(1), "main", 0, Deadline(0.2))
        raise FalseSuccess("a listener without the secret was taken for process 0")
    stage.close()


def second_claim(seed: int) -> None:
    """A process with the secret claims a rank that is taken: the first one stays."""
    listens = listener()
    at = ("127.0.0.1", listens.address[1])
    first = call(lambda: (at, SECRET), place(1), "main", 0, Deadline(10))
    try:
        call(lambda: (at, SECRET), place(1), "main", 0, Deadline(10))
        raise FalseSuccess("a rank was given away twice")
    except CommError as error:
        if "has connected already" not in str(error):
            raise FalseSuccess(f"the second was not told: {error}") from error
    other = listens.take("main", 1, Deadline(10))
    if both_ways(first, other, b"still here", lambda data: data) != b"still here":
        raise Lost("the first one lost its place")
    listens.close()


def pair() -> tuple[Link, Link]:
    """Both ends of a connection."""
    listens = listener()
    at = ("127.0.0.1", listens.address[1])
    one = call(lambda: (at, SECRET), place(1), "main", 0, Deadline(10))
    other = listens.take("main", 1, Deadline(10))
    listens.close()
    return one, other


def both_ways(one: Link, other: Link, data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """Send data from one to the other, changed on the way; what was received."""
    near, far = socket.socketpair()
    with near, far:
        sender = Transfer(0, Link(near, one.outgoing, one.incoming), memoryview(data),
                          memoryview(bytearray()))  # fmt: skip
        sender.send()
        frame = far.recv(1 << 20)
    with contextlib.suppress(OSError):
        other.connection.settimeout(0.5)
        one.connection.sendall(change(frame))
    into = bytearray(len(data))
    receiver = Transfer(1, other, memoryview(b""), memoryview(into))
    while receiver._open:
        receiver.receive()
    return bytes(into)


def changed_frame(seed: int) -> None:
    """Any bit of a frame is another one, or bytes are missing."""
    draw = random.Random(seed)
    one, other = pair()
    data = draw.randbytes(draw.randint(1, 5000))

    def change(frame: bytes) -> bytes:
        copy = bytearray(frame)
        copy[draw.randrange(len(copy))] ^= 1 << draw.randrange(8)
        return bytes(copy) if seed % 4 != 3 else frame[: draw.randrange(len(frame))]

    expect_refusal(lambda: both_ways(one, other, data, change), "a changed frame was taken")


def repeated_frame(seed: int) -> None:
    """A frame comes twice, the second instead of another one."""
    draw = random.Random(seed)
    one, other = pair()
    data, kept = draw.randbytes(100), []
    both_ways(one, other, data, lambda frame: kept.append(frame) or frame)  # type: ignore[func-returns-value]
    expect_refusal(
        lambda: both_ways(one, other, data, lambda _: kept[0]), "a repeated frame was taken"
    )


def reflected_frame(seed: int) -> None:
    """A process gets back what it has sent itself."""
    one, other = pair()
    data, kept = random.Random(seed).randbytes(100), []
    both_ways(one, other, data, lambda frame: kept.append(frame) or frame)  # type: ignore[func-returns-value]
    expect_refusal(
        lambda: both_ways(other, one, data, lambda _: kept[0]), "a process has heard itself"
    )


def frame_of_another_connection(seed: int) -> None:
    """The same frame, from another connection of the same processes."""
    data = random.Random(seed).randbytes(100)
    first, second, kept = pair(), pair(), []
    both_ways(*first, data, lambda frame: kept.append(frame) or frame)  # type: ignore[func-returns-value]
    expect_refusal(
        lambda: both_ways(*second, data, lambda _: kept[0]), "another connection's frame was taken"
    )


def expect_refusal(work: Callable[[], object], otherwise: str) -> None:
    """Run what must fail."""
    try:
        work()
    except (Forged, WrongLength, TimeoutError, ConnectionError):
        return
    raise FalseSuccess(otherwise)


assert HEADER.size + TAG_BYTES == 40  # what the cases above change
TAMPERING: dict[str, Callable[[int], None]] = {
    work.__name__: work
    for work in (
        replayed_to_a_listener,
        replayed_to_a_caller,
        false_listener,
        second_claim,
        changed_frame,
        repeated_frame,
        reflected_frame,
        frame_of_another_connection,
    )
}
