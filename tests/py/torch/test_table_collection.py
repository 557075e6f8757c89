# SPDX-License-Identifier: Apache-2.0
"""The core's tables without a model, driven from NumPy; hugectr.torch is tested in tests/torch."""

import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
from oracle.rounding import random_bits, rounded, widened

from hugectr import InvalidArgument, OutOfMemory
from hugectr._core import TableCollection

DIM = 3
SGD = {"optimizer": "SGD", "update_type": "Local"}


def memory(array):
    return array.ctypes.data, array.shape, array.dtype.name


class Tables:
    """Tables whose batches are lists of bags."""

    def __init__(self, tables, opt_params=SGD):
        specs = [{"embedding_vec_size": DIM, "opt_params": opt_params} | each for each in tables]
        self.core = TableCollection(specs, "cpu", 0, 5)
        self.kept = []

    def keys(self, bags):
        keys = np.array([key for bag in bags for key in bag], np.int64)
        offsets = np.cumsum([0, *map(len, bags)]).astype(np.uint32)
        self.kept.append((keys, offsets))
        return memory(keys), memory(offsets)

    def plan(self, *tables):
        return self.core.plan([self.keys(bags) for bags in tables])

    def outputs(self, *sizes):
        outputs = [np.full((size, 1, DIM), 7, np.float32) for size in sizes]
        return outputs, [memory(each) for each in outputs]

    def forward(self, token, *sizes):
        outputs, where = self.outputs(*sizes)
        self.core.forward(token, where)
        return [each[:, 0] for each in outputs]

    def look_up(self, *tables):
        outputs, where = self.outputs(*map(len, tables))
        self.core.look_up([self.keys(bags) for bags in tables], where)
        return [each[:, 0] for each in outputs]

    def accumulate(self, token, *gradients):
        arrays = [np.ascontiguousarray(each, np.float32)[:, None] for each in gradients]
        self.core.accumulate(token, [memory(each) for each in arrays])

    def rows(self, table=0):
        found = self.core.tables()[table].dump()
        return dict(zip(found["keys"].tolist(), found["vectors"], strict=True))


def test_rows_of_two_tables_go_down_by_their_gradients():
    tables = Tables([{"name": "a"}, {"name": "b", "combiner": "mean"}])
    bags = [[1, 2], [2], []], [[7, 8], [7, 7]]
    token = tables.plan(*bags)
    before = tables.forward(token, 3, 2)
    assert not before[0][2].any()
    gradients = np.arange(9).reshape(3, 3), np.arange(6).reshape(2, 3)
    tables.accumulate(token, *gradients)
    tables.accumulate(token, *gradients)  # twice the gradient, one update
    squares = np.zeros(2)
    tables.core.squares(memory(squares))
    a = {1: gradients[0][0] * 2.0, 2: (gradients[0][0] + gradients[0][1]) * 2.0}
    b = {7: gradients[1][0] * 1.0 + gradients[1][1] * 2.0, 8: gradients[1][0] * 1.0}
    wanted = [sum((g**2).sum() for g in each.values()) for each in (a, b)]
    np.testing.assert_allclose(squares, wanted)
    tables.core.step([0.1, 0.2])
    tables.core.release(token)
    assert tables.core.steps() == 1
    rows = tables.rows(0)
    np.testing.assert_allclose(rows[1] + rows[2], before[0][0] - 0.1 * (a[1] + a[2]), rtol=1e-6)
    np.testing.assert_allclose(rows[2], before[0][1] - 0.1 * a[2], rtol=1e-6)
    rows = tables.rows(1)
    np.testing.assert_allclose(rows[7], before[1][1] - 0.2 * b[7], rtol=1e-6)
    found = tables.look_up([[2], [9]], [[7, 9]])
    np.testing.assert_array_equal(found[0][1], 0)
    np.testing.assert_array_equal(found[1][0], rows[7] / 2)


def test_unscale_multiplies_gradients_of_each_table():
    tables = Tables([{"name": "a"}, {"name": "b"}])
    token = tables.plan([[1]], [[1]])
    before = tables.forward(token, 1, 1)
    tables.accumulate(token, [[1, 1, 1]], [[1, 1, 1]])
    unscale = np.array([0.5, 0.0], np.float32)
    tables.core.step([0.1, 0.1], memory(unscale))
    tables.core.release(token)
    np.testing.assert_allclose(tables.rows(0)[1], before[0][0] - 0.05, rtol=1e-6)
    np.testing.assert_array_equal(tables.rows(1)[1], before[1][0])


def test_rows_come_in_and_go_while_no_batch_is_alive():
    tables = Tables([{"name": "a", "max_vocabulary_size_per_gpu": 4}])
    (table,) = tables.core.tables()
    vectors = np.arange(6, dtype=np.float32).reshape(2, 3)
    rows = {
        "keys": np.array([3, 4]),
        "slot_ids": None,
        "vectors": vectors,
        "states": [],
        "last_step": None,
    }
    token = tables.plan([[3]])
    with pytest.raises(InvalidArgument, match="planned"):
        table.load(rows)
    tables.core.release(token)
    table.load(rows)
    np.testing.assert_array_equal(tables.look_up([[3, 4]])[0][0], vectors.sum(0))
    assert table.erase([3, 99]) == 1
    assert list(tables.rows()) == [4]
    with pytest.raises(OutOfMemory, match="may have 4"):
        tables.plan([[5, 6, 7, 8]])
    assert table.stats()["rows"] == 1


class Held:
    """What somebody wants kept as long as a batch."""

    token = 0


@pytest.mark.parametrize("call", ["plan", "begin"])
def test_what_a_batch_reads_is_kept_with_it(call):
    tables = Tables([{"name": "a"}])
    held = Held()
    gone = weakref.ref(held)
    token = getattr(tables.core, call)([tables.keys([[1], [2]])], 0, held)
    assert held.token == token
    assert tables.core.is_alive(token)
    del held
    tables.forward(token, 2)
    assert gone() is not None
    other = tables.plan([[3]])
    tables.core.release(token)
    assert gone() is None
    assert [tables.core.is_alive(each) for each in (token, other)] == [False, True]
    tables.core.release_all()
    assert not tables.core.is_alive(other)
    refused = Held()
    with pytest.raises(InvalidArgument, match="reserved"):
        tables.core.plan([tables.keys([[2**63 - 1]])], 0, refused)
    assert refused.token == 0
    tables.plan([[4]])


def test_what_is_wrong_is_said():
    tables = Tables([{"name": "a"}])
    token = tables.plan([[1], [2]])
    with pytest.raises(InvalidArgument, match="have shape"):
        tables.forward(token, 3)
    with pytest.raises(InvalidArgument, match="have shape"):
        tables.accumulate(token, np.zeros((1, DIM)))
    with pytest.raises(InvalidArgument, match="no batch 99"):
        tables.core.release(99)
    tables.core.release(token)
    with pytest.raises(InvalidArgument, match=f"no batch {token}"):
        tables.forward(token, 2)
    with pytest.raises(InvalidArgument, match="rates of 2"):
        tables.core.step([0.1, 0.1])
    with pytest.raises(InvalidArgument, match="unknown field 'dim'"):
        Tables([{"dim": 3}])
    with pytest.raises(InvalidArgument, match="sum or mean"):
        Tables([{"combiner": "concat"}])
    with pytest.raises(TypeError, match="can not be pickled"):
        tables.core.__reduce__()


def test_calls_of_several_threads_take_turns():
    tables = Tables([{"name": "a"}])

    def train():
        for _ in range(30):
            token = tables.plan([[1, 2], [3]])
            tables.forward(token, 2)
            tables.accumulate(token, np.ones((2, DIM)))
            tables.core.release(token)

    threads = [threading.Thread(target=train) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first = tables.look_up([[1]])[0]
    assert not first.any()
    token = tables.plan([[1]])
    before = tables.forward(token, 1)[0]
    tables.core.release(token)
    tables.core.step([0.01])
    np.testing.assert_allclose(tables.look_up([[1]])[0], before - 1.2, rtol=1e-5)


def test_without_torch_the_package_says_how_to_have_it():
    code = "import sys; sys.modules['torch'] = None; import hugectr.torch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ImportError: hugectr.torch needs PyTorch" in done.stderr
    assert "pip install 'hugectr[torch]'" in done.stderr


def test_vectors_in_bfloat16_are_rounded_by_key_step_and_column():
    tables = Tables([{"vector_type": "bfloat16"}])
    keys, gradient = [3, -9, 2**40], np.random.default_rng(1).standard_normal((3, DIM))
    for step in (1, 2, 3):
        token = tables.plan([[key] for key in keys])
        (before,) = tables.forward(token, 3)
        tables.accumulate(token, gradient)
        tables.core.step([0.1])
        tables.core.release(token)
        random = random_bits(5, 0, np.zeros(3, np.uint32), np.array(keys), step, np.arange(DIM))
        moved = before.astype(np.float64) - np.float32(0.1) * gradient.astype(np.float32)
        wanted = widened(rounded(moved.astype(np.float32), random))
        found = tables.rows()
        near = np.array([found[key] for key in keys])
        np.testing.assert_allclose(near, wanted, rtol=2**-7)
        assert (near == wanted).mean() > 0.8  # sums in float32 may cross a threshold
