# SPDX-License-Identifier: Apache-2.0
"""Fuzzes what processes of a job read from each other: run it with ``tools/fuzz.sh protocol``.

The first byte of an input says who reads the rest: a listener, a caller, the reader of small
messages, an exchange, or the decoder of values. Nonces and keys are fixed, so that an input does
the same again; the seeds are what a process with the secret sends.
"""

import contextlib
import importlib
import sys

with contextlib.suppress(ImportError):  # the seeds do without
    import atheris

    # Coverage is that of what is imported here.
    with atheris.instrument_imports(include=["hugectr.processes"]):
        for module in ("values", "greeting", "frames", "transfer", "listener"):
            importlib.import_module(f"hugectr.processes.{module}")

import numpy as np

sys.path.insert(0, __file__.rpartition("/")[0])
from python_target import run

from hugectr.processes import frames, greeting, listener, transfer, values
from hugectr.processes.environment import Place

SECRET, KEY = b"5ec2e7" * 8, bytes(32)
PLACE = Place(0, 2, 0, ("127.0.0.1", 0), "", True, SECRET)
DATA = bytes(range(200))


class Stream:
    """A connection on which an input comes in, some bytes at a time."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.sent = b""

    def recv(self, most: int) -> bytes:
        """As a socket does."""
        part, self.content = self.content[: min(most, 37)], self.content[min(most, 37) :]
        return part

    def recvmsg_into(self, into: list[memoryview]) -> tuple[int]:
        """As a socket does."""
        part = self.recv(sum(map(len, into)))
        rest = part
        for view in into:
            view[: len(rest)] = rest[: len(view)]
            rest = rest[len(view) :]
        return (len(part),)

    def send(self, data: bytes) -> int:
        """As a socket does."""
        self.sent += data
        return len(data)


def fixed_nonces(count: int = 32) -> bytes:
    """In place of random ones, here only."""
    return bytes(count)


greeting.secrets = type("Secrets", (), {"token_bytes": staticmethod(fixed_nonces)})  # type: ignore[attr-defined]


def listen(content: bytes) -> None:
    """A stranger, or a process, greets; it is let in only by the proof."""
    stream = Stream(content)
    guest = listener._Guest(stream, "127.0.0.1")  # type: ignore[arg-type]
    verdict = ""
    while not verdict:
        verdict = guest.read(SECRET, PLACE)
    caller = greeting.Caller(SECRET, "x", 1, 2, 0)
    caller.hello = content[: greeting.HELLO_BYTES]
    proof = content[greeting.HELLO_BYTES :][: greeting.PROOF_BYTES]
    assert proof == caller.prove(stream.sent), "let in without a proof"
    assert (verdict == greeting.ACCEPTED) <= (0 < guest.answerer.rank < 2)


def call(content: bytes) -> None:
    """Something answers a process; it is believed only with the secret."""
    caller = greeting.Caller(SECRET, "main", 1, 2, 0)
    challenge = content[: greeting.CHALLENGE_BYTES].ljust(greeting.CHALLENGE_BYTES, b"\0")
    caller.prove(challenge)
    verdict = caller.verdict(content[greeting.CHALLENGE_BYTES :])
    answerer = greeting.Answerer(SECRET, 0, 2, caller.hello)
    answerer._transcript = caller.hello + challenge
    assert content[greeting.CHALLENGE_BYTES :] == answerer.answer(verdict)


def messages(content: bytes) -> None:
    """Small messages; what comes out is what a process has sealed."""
    reader, sealing = frames.MessageReader(frames.Direction(KEY)), frames.Direction(KEY)
    stream, read = Stream(content), b""
    while part := stream.recv(1 << 16):
        for message in reader.feed(part):
            read += frames.sealed(sealing, message)
            assert content.startswith(read)


def exchange(content: bytes) -> None:
    """An exchange that ends has the bytes of a process that made the frame."""
    into = bytearray(len(DATA))
    link = frames.Link(Stream(content), frames.Direction(KEY), frames.Direction(KEY))  # type: ignore[arg-type]
    moved = transfer.Transfer(1, link, memoryview(b""), memoryview(into))
    while moved._open:
        moved.receive()
    assert content.startswith(frames.sealed(frames.Direction(KEY), bytes(into)))


def value(content: bytes) -> None:
    """What was decoded can be encoded, and says the same."""
    found = values.decode(content)
    again = values.decode(values.encode(found))
    assert repr(again) == repr(found)


TARGETS = (listen, call, messages, exchange, value)


def target(content: bytes) -> None:
    """Bytes are read or refused, by the errors that callers expect."""
    with contextlib.suppress(OSError, ValueError):
        TARGETS[content[0] % len(TARGETS) if content else 0](content[1:])


def seeds() -> dict[str, bytes]:
    """What each reader accepts."""
    caller = greeting.Caller(SECRET, "main", 1, 2, 0)
    answerer = greeting.Answerer(SECRET, 0, 2, caller.hello)
    proof = caller.prove(answerer.challenge)
    assert answerer.check(proof) == greeting.ACCEPTED
    sealing = frames.Direction(KEY)
    shared = {"a": [1, (None, True)], "b": np.arange(6.0).reshape(2, 3), "c": b"x", 4: 0.5}
    return {
        "listen": b"\0" + caller.hello + proof,
        "call": b"\1" + answerer.challenge + answerer.answer(greeting.ACCEPTED),
        "messages": b"\2" + frames.sealed(sealing, b"one") + frames.sealed(sealing, b"\0"),
        "exchange": b"\3" + frames.sealed(frames.Direction(KEY), DATA),
        "value": b"\4" + values.encode(shared),
    }


if __name__ == "__main__":
    run(target, seeds())
