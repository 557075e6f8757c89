# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.tables import sharing

from hugectr import _core

ROWS, SLOTS = 700, 100
WORD = np.uint64(0xFFFFFFFF)


def mix_key(a, b):
    """Finaliser of splitmix64 over two words (uint64 arrays wrap around)."""
    z = np.uint64(a) + np.uint64(0x9E3779B97F4A7C15) * (b + np.uint64(1))
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def philox(key, low, high):
    """Philox4x32-10 with uint64 arrays: the four words are the last axis."""
    key, low, high = np.broadcast_arrays(key, low, high)
    c = [low & WORD, low >> np.uint64(32), high & WORD, high >> np.uint64(32)]
    k0, k1 = key & WORD, key >> np.uint64(32)
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [
            (p1 >> np.uint64(32)) ^ c[1] ^ k0,
            p1 & WORD,
            (p0 >> np.uint64(32)) ^ c[3] ^ k1,
            p0 & WORD,
        ]
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & WORD, (k1 + np.uint64(0xBB67AE85)) & WORD
    return np.stack(c, axis=-1)


def drawn(keys, slots, d, seed, table, bounds):
    """The weights of new rows.

    In float64 all but the last step is exact, so the one rounding is that of fma in float32: with
    k < 2^24 and a bound of 24 bits both the product and k 2^-23 bound - bound, which is
    (k - 2^23) 2^-23 bound, have 48 bits at most.
    """
    stream = mix_key(seed, mix_key(table, slots.astype(np.uint64)))
    groups = np.arange((d + 3) // 4, dtype=np.uint64)
    bits = philox(stream[:, None], keys.astype(np.uint64)[:, None], groups)
    unit = (bits.reshape(keys.size, 4 * groups.size)[:, :d] >> np.uint64(8)) * 2.0**-24
    bound = np.float32(bounds).astype(np.float64)[slots % len(bounds)][:, None]
    return (unit * (2 * bound) - bound).astype(np.float32)


class Table:
    """Rows full of numbers of their own, and what is to become of some of them."""

    def __init__(self, rng, key, d, states=2):
        info = np.iinfo(key)
        self.keys = rng.integers(info.min, info.max, ROWS, key)
        self.keys[100:105] = info.min, info.max - 1, 0, 1, 2**31
        self.keys[300:310] = self.keys[300]  # what tells them apart is the slot
        self.slots = rng.integers(0, SLOTS, ROWS, np.uint32)
        self.slots[300:303] = 0, 1, 1
        self.weights = rng.standard_normal((ROWS, d)).astype(np.float32)
        widths = [d, 1, d][:states]  # a number a row is a state too
        self.states = [rng.random((ROWS, width)).astype(np.float32) for width in widths]
        self.last_step = rng.integers(5, 99, ROWS)
        self.seed, self.table = (int(x) for x in rng.integers(0, 2**63, 2))
        self.initial_states = rng.random(states).tolist()

    def tensors(self, slots):
        return {
            "row_keys": self.keys,
            "weights": self.weights,
            "states": self.states,
            "last_step": self.last_step,
            **({"row_slots": self.slots} if slots else {}),
        }

    def init(self, first, count, bounds, slots, without=(), until=None):
        """Runs the op and compares every array with what it must hold."""
        part = slice(
            first, first + count if until is None else np.clip(until, first, first + count)
        )
        weights, last_step = self.weights.copy(), self.last_step.copy()
        states = [state.copy() for state in self.states]
        if "weights" not in without:
            used = self.slots if slots else np.zeros_like(self.slots)
            content = (self.seed, self.table, bounds)
            weights[part] = drawn(self.keys[part], used[part], weights.shape[1], *content)
        if "states" not in without:
            for state, start in zip(states, self.initial_states, strict=True):
                state[part] = np.float32(start)
        if "last_step" not in without:
            last_step[part] = 1
        inputs = self.keys.tobytes(), self.slots.tobytes()
        attributes = {"first": first, "count": count, "seed": self.seed, "table": self.table}
        attributes.update(bounds=bounds)
        if "states" not in without:
            attributes.update(initial_states=self.initial_states)
        tensors = {k: v for k, v in self.tensors(slots).items() if k not in without}
        if until is not None:
            tensors["until"] = np.array([until])
        _core.run_op("embedding_init", tensors, attributes)
        np.testing.assert_array_equal(bits_of(self.weights), bits_of(weights), "weights")
        for found, wanted in zip(self.states, states, strict=True):
            np.testing.assert_array_equal(found, wanted, "states")
        np.testing.assert_array_equal(self.last_step, last_step, "last_step")
        assert (self.keys.tobytes(), self.slots.tobytes()) == inputs, "inputs"


def bits_of(weights):
    return np.ascontiguousarray(weights).view(np.uint32)


def some_bounds(rng, number):
    return rng.uniform(1e-3, 3.0, number).tolist()


@pytest.mark.cpu_only  # no op runs here
@pytest.mark.parametrize(
    ("key", "low", "high", "words"),
    [
        (0, 0, 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (2**64 - 1, 2**64 - 1, 2**64 - 1, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            0x299F31D0A4093822,
            0x85A308D3243F6A88,
            0x0370734413198A2E,
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_the_oracle_draws_what_the_authors_of_philox_published(key, low, high, words):
    """Known answers of Random123."""
    found = philox(*(np.array([x], np.uint64) for x in (key, low, high)))
    assert " ".join(f"{x:08x}" for x in found[0].tolist()) == words


@pytest.mark.parametrize("number", [None, 1, SLOTS], ids=["no-slots", "one-bound", "bound-a-slot"])
@pytest.mark.parametrize("key", [np.uint32, np.int64])
@pytest.mark.parametrize("d", [1, 2, 3, 4, 7, 16, 33, 128, 260])
def test_rows_are_drawn_bit_for_bit(rng, d, key, number):
    """More bounds than go to a device at once; rows shorter and longer than what a warp draws."""
    first = int(rng.integers(0, 50))
    count = int(rng.integers(550, ROWS - first))
    Table(rng, key, d).init(first, count, some_bounds(rng, number or 1), number is not None)


@pytest.mark.parametrize(("first", "count"), [(0, 0), (ROWS, 0), (0, 1), (699, 1), (0, ROWS)])
@pytest.mark.parametrize("number", [1, SLOTS])
def test_rows_of_any_range(rng, first, count, number):
    Table(rng, np.int64, 12).init(first, count, some_bounds(rng, number), True)


@pytest.mark.parametrize("until", [0, 49, 50, 51, 177, 649, 650, 2**40])
@pytest.mark.parametrize("d", [3, 64])
def test_rows_up_to_an_end_that_the_device_knows(rng, d, until):
    Table(rng, np.int64, d).init(50, 600, some_bounds(rng, 1), False, until=until)


@pytest.mark.parametrize("number", [2, 64, 65, 128, 129])
def test_bounds_of_any_number_of_slots(rng, number):
    table = Table(rng, np.uint32, 8, states=0)
    table.slots %= np.uint32(number)
    table.slots[-1] = number - 1
    table.init(1, ROWS - 1, some_bounds(rng, number), True)


@pytest.mark.parametrize("bound", [0.0, 1e-40, 1e-30, 2.0**-10, 0.05, 1.0, 1e30])
def test_bounds_of_any_size(rng, bound):
    """Of no size and subnormal ones too."""
    table = Table(rng, np.int64, 8)
    table.init(0, ROWS, [bound], False)
    assert np.abs(table.weights).max() <= np.float32(bound)


@pytest.mark.parametrize("key", [np.uint32, np.int64])
@pytest.mark.parametrize("d", [4, 16, 17])
def test_weights_that_start_between_multiples_of_16_bytes(rng, d, key):
    """The last key is no key of a row here, nor is row 0 written: they may share their bytes."""
    table = Table(rng, key, d)
    keys = np.append(table.keys, key(9))
    keys = np.append(keys, key(9)) if key == np.uint32 else keys
    table.keys, table.weights = sharing(keys, 4, table.weights)
    assert (keys.nbytes - 4) % 16 != 0
    table.slots = np.append(table.slots, table.slots[: keys.size - ROWS])
    table.init(1, ROWS - 1, some_bounds(rng, SLOTS), True)


@pytest.mark.parametrize("left", ["weights", "states", "last_step"])
def test_only_what_is_given_is_written(rng, left):
    """One array alone, and all but this one."""
    names = {"weights", "states", "last_step"}
    table = Table(rng, np.int64, 5)
    table.init(3, 200, [0.5], False, without=(left,))
    table.init(150, 200, [0.25], True, without=names - {left})


@pytest.mark.parametrize(
    ("change", "attributes", "text"),
    [
        ({}, {"bounds": [0.1, 0.2]}, "one bound a slot needs row_slots"),
        ({}, {"bounds": []}, "one bound a slot needs row_slots"),
        ({}, {"first": -1}, r"rows -1 \+ 4 are negative"),
        ({}, {"count": -4}, r"rows 0 \+ -4 are negative"),
        ({}, {"first": 1}, "row_keys holds 4 int64, must hold at least 5"),
        ({"row_keys": np.zeros(4, np.uint64)}, {}, "keys hold uint64"),
        ({"until": np.zeros(2, np.int64)}, {}, "until holds 2 int64, must hold 1"),
        ({"until": np.array([2]), "rows": np.arange(4, dtype=np.uint32)}, {}, "no end to be known"),
        ({"row_slots": np.zeros(3, np.uint32)}, {}, "row_slots holds 3"),
        ({"row_slots": np.zeros(4, np.int64)}, {}, "row_slots holds 4 int64"),
        ({"last_step": np.zeros(3, np.int64)}, {}, "last_step holds 3"),
        ({"weights": np.zeros((3, 2), np.float32)}, {}, r"weights has shape \(3, 2\)"),
        ({"weights": np.zeros((4, 2), np.float16)}, {}, r"must be \(>= 4, d\) float32"),
        ({"weights": np.zeros((4, 4), np.float32)[:, :2]}, {}, "weights has shape"),
        ({"states": [np.zeros(4, np.float32)]}, {}, r"a state has shape \(4\)"),
    ],
)
def test_embedding_init_refuses(change, attributes, text):
    weights = np.full((4, 2), 7, np.float32)
    tensors = {"row_keys": np.zeros(4, np.int64), "weights": weights, **change}
    with pytest.raises(_core.InvalidArgument, match=text):
        _core.run_op("embedding_init", tensors, {"count": 4, **attributes})
    np.testing.assert_array_equal(weights, 7)


@pytest.mark.parametrize("number", [None, SLOTS], ids=["no-slots", "bound-a-slot"])
@pytest.mark.parametrize("key", [np.uint32, np.int64])
@pytest.mark.parametrize("d", [1, 4, 7, 128])
def test_named_rows_get_what_rows_in_order_get(rng, d, key, number):
    """And no other row changes; births are those of the call."""
    table, slots = Table(rng, key, d), number is not None
    twin = {k: v.copy() for k, v in table.tensors(slots).items() if k != "states"}
    twin_states = [state.copy() for state in table.states]
    rows = rng.permutation(ROWS)[:333].astype(np.uint32)
    births = np.arange(ROWS, dtype=np.uint32)
    attributes = {"seed": table.seed, "table": table.table, "bounds": some_bounds(rng, number or 1)}
    attributes["initial_states"] = table.initial_states
    before = [a.copy() for a in (table.weights, *table.states, table.last_step, births)]
    _core.run_op(
        "embedding_init", {**twin, "states": twin_states}, {**attributes, "first": 0, "count": ROWS}
    )
    _core.run_op(
        "embedding_init",
        {**table.tensors(slots), "rows": rows, "births": births},
        {**attributes, "count": rows.size, "birth": 2**32 - 2},
    )
    twins = [twin["weights"], *twin_states, twin["last_step"], np.full(ROWS, 2**32 - 2, np.uint32)]
    named = np.isin(np.arange(ROWS), rows)
    after = [table.weights, *table.states, table.last_step, births]
    for found, other, old in zip(after, twins, before, strict=True):
        np.testing.assert_array_equal(found[named], other[named])
        np.testing.assert_array_equal(found[~named], old[~named])


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("d", [1, 5, 16])
def test_rows_that_lie_at_places_get_what_rows_in_order_get(rng, d, named):
    table, first, count = Table(rng, np.int64, d), 200, 300
    rows = np.arange(first, first + count, dtype=np.uint32)
    attributes = {"count": count, "seed": table.seed, "table": table.table, "bounds": [0.3]}
    attributes |= {"initial_states": table.initial_states, "birth": 7}
    places = np.zeros(ROWS, np.uint32)
    places[rows] = 1 + rng.permutation(2 * count)[:count]

    def at_places(array):
        return rng.integers(0, 99, (2 * count, *array.shape[1:])).astype(array.dtype)

    lying = {"weights": at_places(table.weights), "last_step": at_places(table.last_step)}
    lying["states"] = [at_places(state) for state in table.states]
    wanted = {name: np.copy(lying[name]) for name in ("weights", "last_step")}
    wanted_states = [state.copy() for state in lying["states"]]
    births = np.zeros(ROWS, np.uint32)
    inputs = {"row_keys": table.keys, "places": places, "births": births}
    where = {"rows": rows} if named else {}
    begin = {} if named else {"first": first}
    _core.run_op("embedding_init", inputs | lying | where, attributes | begin)
    at = places[rows] - 1
    content = (table.seed, table.table, [0.3])
    wanted["weights"][at] = drawn(table.keys[rows], np.zeros(count, np.uint32), d, *content)
    wanted["last_step"][at] = 1
    for state, start in zip(wanted_states, table.initial_states, strict=True):
        state[at] = np.float32(start)
    np.testing.assert_array_equal(bits_of(lying["weights"]), bits_of(wanted["weights"]))
    np.testing.assert_array_equal(lying["last_step"], wanted["last_step"])
    for found, state in zip(lying["states"], wanted_states, strict=True):
        np.testing.assert_array_equal(found, state)
    np.testing.assert_array_equal(births[rows], 7)  # by number
    assert births.sum() == 7 * count


def test_births_of_rows_in_order(rng):
    table, births = Table(rng, np.int64, 4), np.full(ROWS, 9, np.uint32)
    attributes = {"seed": 1, "table": 2, "bounds": [0.1], "first": 40, "count": 60, "birth": 5}
    _core.run_op("embedding_init", {"row_keys": table.keys, "births": births}, attributes)
    expected = np.full(ROWS, 9)
    expected[40:100] = 5
    np.testing.assert_array_equal(births, expected)


def test_named_rows_are_checked(rng):
    table = Table(rng, np.int64, 4)
    attributes = {"seed": 1, "table": 2, "bounds": [0.1], "count": 3}
    rows = np.arange(3, dtype=np.uint32)
    for tensors, more, text in (
        ({"rows": rows}, {"first": 1}, "first is 1 where rows are named"),
        ({"rows": rows[:2]}, {}, "rows"),
        ({"rows": rows, "births": np.zeros(ROWS - 1, np.uint32)}, {}, "births"),
    ):
        with pytest.raises(_core.InvalidArgument, match=text):
            _core.run_op(
                "embedding_init", {"row_keys": table.keys, **tensors}, {**attributes, **more}
            )


@pytest.mark.parametrize("d", [1, 6, 8])
@pytest.mark.parametrize("key_type", [np.uint32, np.int64])
def test_sinusoidal_rows_say_where_their_key_stands(rng, d, key_type):
    keys = rng.integers(0, 5000, 40).astype(key_type)
    weights = np.zeros((40, d), np.float32)
    _core.run_op(
        "embedding_init",
        {"row_keys": keys, "weights": weights},
        {"count": 40, "sinusoidal": True},
    )
    pair = np.arange(d) // 2 * 2
    angles = keys.astype(np.float64)[:, None] / 10000.0 ** (pair / d)
    wanted = np.where(np.arange(d) % 2 == 0, np.sin(angles), np.cos(angles))
    np.testing.assert_allclose(weights, wanted, rtol=0, atol=2e-7)


@pytest.mark.parametrize("sinusoidal", [False, True])
@pytest.mark.parametrize(("d", "pieces"), [(16, 4), (24, 3), (8, 1)])
def test_columns_of_rows_are_those_of_whole_rows(rng, d, pieces, sinusoidal):
    keys = rng.integers(0, 2**40, 50)
    attributes = {"count": 50, "seed": 5, "table": 2, "sinusoidal": sinusoidal}

    def made(width, first):
        weights = np.full((50, width), 99, np.float32)
        columns = {"first_column": first, "columns": d} if width < d else {}
        _core.run_op(
            "embedding_init",
            {"row_keys": keys, "weights": weights, "states": []},
            {**attributes, "bounds": [0.5], "initial_states": [], **columns},
        )
        return weights

    whole, width = made(d, 0), d // pieces
    for piece in range(pieces):
        part = made(width, piece * width)
        np.testing.assert_array_equal(part, whole[:, piece * width : (piece + 1) * width])
    with pytest.raises(_core.InvalidArgument, match="first_column 2 must be a multiple of 4"):
        _core.run_op(
            "embedding_init",
            {"row_keys": keys, "weights": made(4, 0), "states": []},
            {**attributes, "bounds": [0.5], "initial_states": [], "first_column": 2},
        )
