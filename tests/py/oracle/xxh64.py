# SPDX-License-Identifier: Apache-2.0
"""XXH64 in plain integers, after its specification."""

import struct

P1, P2, P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P4, P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
MASK = 2**64 - 1


def rotated(x: int, by: int) -> int:
    """Rotated to the left."""
    return ((x << by) | (x >> (64 - by))) & MASK


def mixed(accumulator: int, lane: int) -> int:
    """One lane taken in."""
    return rotated((accumulator + lane * P2) & MASK, 31) * P1 & MASK


def xxh64(data: bytes, seed: int = 0) -> int:
    """The 64-bit hash."""
    place = 0
    if len(data) >= 32:
        lanes = [(seed + P1 + P2) & MASK, (seed + P2) & MASK, seed, (seed - P1) & MASK]
        while place + 32 <= len(data):
            for i, word in enumerate(struct.unpack_from("<4Q", data, place)):
                lanes[i] = mixed(lanes[i], word)
            place += 32
        total = sum(rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
        total &= MASK
        for lane in lanes:
            total = ((total ^ mixed(0, lane)) * P1 + P4) & MASK
    else:
        total = (seed + P5) & MASK
    total = (total + len(data)) & MASK
    while place + 8 <= len(data):
        (word,) = struct.unpack_from("<Q", data, place)
        total = (rotated(total ^ mixed(0, word), 27) * P1 + P4) & MASK
        place += 8
    if place + 4 <= len(data):
        (word,) = struct.unpack_from("<I", data, place)
        total = (rotated(total ^ (word * P1 & MASK), 23) * P2 + P3) & MASK
        place += 4
    for byte in data[place:]:
        total = rotated(total ^ (byte * P5 & MASK), 11) * P1 & MASK
    total = (total ^ (total >> 33)) * P2 & MASK
    total = (total ^ (total >> 29)) * P3 & MASK
    return total ^ (total >> 32)


def key(data: bytes, seed: int) -> int:
    """The key of a value of these bytes in a field of this seed."""
    return min(xxh64(data, seed) >> 1, 2**63 - 2)
