# SPDX-License-Identifier: Apache-2.0
"""How two processes show each other that they know the job's secret, which itself never travels.

    caller                                              listener
    hello:  version, connection, rank, size, nonce  ->
                                                    <-  challenge: version, rank, size, nonce
    proof:  HMAC("caller", hello, challenge)        ->
                                                    <-  verdict: HMAC("accepted" | why not, ...)

All have fixed sizes. Both nonces, ranks and sizes are in every HMAC, so what was recorded fits no
other connection, and the words in front keep an answer from being sent back as one's own. Who does
not know the secret gets a challenge and no further. Frames that follow (``frames``) are keyed by
the same transcript.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import struct

from hugectr.processes.frames import Direction

_VERSION = b"hugectr2"
_HELLO = struct.Struct("<8s32sII32s")
_CHALLENGE = struct.Struct("<8sII32s")
HELLO_BYTES, CHALLENGE_BYTES, PROOF_BYTES = _HELLO.size, _CHALLENGE.size, 32

ACCEPTED, TAKEN, OTHER_SIZE, NO_RANK = "accepted", "taken", "other size", "no such rank"
#: What a listener says of a caller that knows the secret.
_VERDICTS = (ACCEPTED, TAKEN, OTHER_SIZE, NO_RANK)


class Stranger(ConnectionError):
    """The other end does not know the secret of this job, or does not speak this language."""


def name_digest(name: str) -> bytes:
    """A connection's name, in a fixed size."""
    return hashlib.sha256(name.encode()).digest()


def _hmac(secret: bytes, word: str, transcript: bytes) -> bytes:
    return hmac.digest(secret, word.encode().ljust(24, b"\0") + transcript, "sha256")


class Caller:
    """The end that opens a connection.

    Parameters
    ----------
    secret : bytes
    name : str
        Of the connection; the same on both ends.
    rank, size : int
        Of this process and its job.
    to : int
        Rank of the process that should listen there.
    """

    def __init__(self, secret: bytes, name: str, rank: int, size: int, to: int) -> None:
        self._secret, self._size, self._to = secret, size, to
        self.hello = _HELLO.pack(_VERSION, name_digest(name), rank, size, secrets.token_bytes(32))
        self._transcript = b""

    def prove(self, challenge: bytes) -> bytes:
        """The proof to send for a challenge.

        Raises
        ------
        Stranger
            When no process of that rank asks for it.
        """
        version, rank, _, _ = _CHALLENGE.unpack(challenge)
        if version != _VERSION or rank != self._to:
            raise Stranger(f"who listens there is not process {self._to}")
        self._transcript = self.hello + challenge
        return _hmac(self._secret, "caller", self._transcript)

    def verdict(self, answer: bytes) -> str:
        """What the listener has decided.

        Raises
        ------
        Stranger
            When it does not know the secret.
        """
        for word in _VERDICTS:
            if hmac.compare_digest(answer, _hmac(self._secret, word, self._transcript)):
                return word
        raise Stranger("who listens there does not know the secret of this job")

    def directions(self) -> tuple[Direction, Direction]:
        """Frames that go out, and that come in."""
        return _directions(self._secret, self._transcript)


class Answerer:
    """The end that listens, for one connection.

    Parameters
    ----------
    secret : bytes
    rank, size : int
        Of this process and its job.
    hello : bytes
        As it came.

    Raises
    ------
    Stranger
        When that is no hello.
    """

    def __init__(self, secret: bytes, rank: int, size: int, hello: bytes) -> None:
        version, self.name, self.rank, self._callers_size, _ = _HELLO.unpack(hello)
        if version != _VERSION:
            raise Stranger("no greeting of this package")
        self._secret, self._own_rank, self._size = secret, rank, size
        self.challenge = _CHALLENGE.pack(_VERSION, rank, size, secrets.token_bytes(32))
        self._transcript = hello + self.challenge

    def check(self, proof: bytes) -> str:
        """Whether the caller may come in, as far as it is known here: ACCEPTED, or why not.

        Raises
        ------
        Stranger
            When it does not know the secret; it is told nothing.
        """
        if not hmac.compare_digest(proof, _hmac(self._secret, "caller", self._transcript)):
            raise Stranger("does not know the secret")
        if self._callers_size != self._size:
            return OTHER_SIZE
        if self.rank >= self._size or self.rank == self._own_rank:
            return NO_RANK
        return ACCEPTED

    def answer(self, verdict: str) -> bytes:
        """The verdict as it is sent."""
        return _hmac(self._secret, verdict, self._transcript)

    def directions(self) -> tuple[Direction, Direction]:
        """Frames that go out, and that come in."""
        incoming, outgoing = _directions(self._secret, self._transcript)
        return outgoing, incoming


def _directions(secret: bytes, transcript: bytes) -> tuple[Direction, Direction]:
    """Frames of the caller, and those of the listener."""
    return (
        Direction(_hmac(secret, "frames of the caller", transcript)),
        Direction(_hmac(secret, "frames of the listener", transcript)),
    )
