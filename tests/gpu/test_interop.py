# SPDX-License-Identifier: Apache-2.0
"""A model's GPU memory in the hands of another program, and the other way, by ctypes alone."""

import gc
import sys
from pathlib import Path

import numpy as np
import pytest

import hugectr
from hugectr import interop

sys.path.insert(0, str(Path(__file__).parents[1] / "py"))
sys.path.insert(0, str(Path(__file__).parent))

from driver import Array, Driver
from model import failing

pytestmark = pytest.mark.skipif(
    not hugectr.cuda.is_available(), reason="no GPU: " + hugectr.cuda.why_not()
)

SLOTS, BATCH = failing.SLOTS, failing.BATCH


@pytest.fixture(scope="module")
def driver():
    return Driver()


@pytest.fixture
def model():
    made = failing.build("cuda", failing.dataset(failing.small_keys()))
    failing.train(made, 3)
    return made


def through_the_interface(driver, view):
    """What a consumer of ``__cuda_array_interface__`` sees."""
    interface = view.__cuda_array_interface__
    assert interface["version"] == 3
    driver.wait(interface["stream"])
    where, read_only = interface["data"]
    assert not read_only
    shape, dtype = interface["shape"], np.dtype(interface["typestr"])
    if interface["strides"] is None:
        return driver.read(where, shape, dtype)
    starts = where + np.arange(shape[0]) * interface["strides"][0]
    return np.stack([driver.read(int(start), shape[1:], dtype) for start in starts])


def test_tensors(model, driver):
    view = model.tensor("relu1")
    assert (view.shape, view.dtype, view.device) == ((BATCH, 16), "float32", "cuda:0")
    assert view.__dlpack_device__() == (2, 0)
    assert not hasattr(view, "__array_interface__")
    for name in ("relu1", "table", "dense", "label"):
        view = model.tensor(name)
        shown = through_the_interface(driver, view)
        np.testing.assert_array_equal(shown, view.copy_to_host())
        assert np.any(shown != 0)
    np.testing.assert_array_equal(
        through_the_interface(driver, model.tensor("relu1")), model.check_out_tensor("relu1")
    )
    assert model.tensor("table").strides[0] > SLOTS * 8 * 4  # columns of its Concat
    with pytest.raises(TypeError, match="copy_to_host"):
        np.asarray(view)


def test_dense_weights(model, driver):
    names = model.dense_weight_names()
    parts = [through_the_interface(driver, model.dense_weight(name)).ravel() for name in names]
    np.testing.assert_array_equal(np.concatenate(parts), model.session.network.dense_weights())
    values = np.random.default_rng().standard_normal((SLOTS * 8 + 3, 16)).astype(np.float32)
    stream = driver.stream()
    array = Array(driver, values, stream)
    for given in (array, values, interop.as_view(array)):
        model.set_dense_weight("fc1.weight", np.zeros_like(values))
        model.set_dense_weight("fc1.weight", given)
        np.testing.assert_array_equal(model.dense_weight("fc1.weight").copy_to_host(), values)
    np.testing.assert_array_equal(interop.to_numpy(array), values)
    array.free()
    wide = Array(driver, values.astype(np.float64), stream)
    with pytest.raises(hugectr.InvalidArgument, match="float64"):
        model.set_dense_weight("fc1.weight", wide)
    wide.free()


def test_table_rows(model, driver):
    rows = model.table("table")
    bag = model.session.table(0).dump(True)
    keys = through_the_interface(driver, rows.keys)
    order = np.argsort(keys)
    np.testing.assert_array_equal(keys[order], bag["keys"])
    np.testing.assert_array_equal(
        through_the_interface(driver, rows.vectors)[order], bag["vectors"]
    )
    assert len(rows.states) == 2
    for shown, state in zip(rows.states, bag["states"], strict=True):
        np.testing.assert_array_equal(through_the_interface(driver, shown)[order], state)


def test_a_view_stays_good_while_the_table_grows(model, driver):
    first = model.table("table")
    keys, place = through_the_interface(driver, first.keys), first.vectors.ptr
    new = np.arange(10**6, 10**6 + 200_000)
    vectors = np.random.default_rng().standard_normal((new.size, 8)).astype(np.float32)
    stream = driver.stream()
    on_device = [Array(driver, new, stream), Array(driver, vectors, stream)]
    model.set_table_rows("table", *on_device)
    for array in on_device:
        array.free()
    grown = model.table("table")
    assert grown.vectors.ptr == place
    np.testing.assert_array_equal(through_the_interface(driver, first.keys), keys)
    # Threads insert: rows come in any order.
    order = through_the_interface(driver, grown.keys)[len(first) :].astype(np.int64) - 10**6
    np.testing.assert_array_equal(np.sort(order), np.arange(new.size))
    np.testing.assert_array_equal(
        through_the_interface(driver, grown.vectors)[len(first) :], vectors[order]
    )
    failing.train(model, 3)
    np.testing.assert_array_equal(
        through_the_interface(driver, first.vectors),
        through_the_interface(driver, model.table("table").vectors)[: len(first)],
    )


def test_memory_outlives_the_model(driver):
    model = failing.build("cuda", failing.dataset(failing.small_keys()))
    failing.train(model, 2)
    expected = model.check_out_tensor("relu1")
    capsule = model.tensor("relu1").__dlpack__()
    view = model.tensor("relu1")
    del model
    gc.collect()
    failing.another_model_trains("cuda")  # would reuse memory that was given back
    np.testing.assert_array_equal(through_the_interface(driver, view), expected)
    taken = hugectr._core.view_of_dlpack(capsule)
    del view
    gc.collect()
    failing.another_model_trains("cuda")
    np.testing.assert_array_equal(taken.copy_to_host(), expected)


def test_dlpack_both_ways(model):
    view = model.tensor("relu1")
    for arguments in ({}, {"stream": 1}, {"stream": 2}, {"stream": -1}, {"max_version": (1, 0)}):
        taken = hugectr._core.view_of_dlpack(view.__dlpack__(**arguments))
        assert (taken.ptr, taken.shape, taken.device) == (view.ptr, view.shape, "cuda:0")
    with pytest.raises(BufferError, match="ambiguous"):
        view.__dlpack__(stream=0)
    on_host = hugectr._core.view_of_dlpack(view.__dlpack__(dl_device=(1, 0)))
    assert on_host.device == "cpu"
    np.testing.assert_array_equal(np.asarray(on_host), view.copy_to_host())
    copy = hugectr._core.view_of_dlpack(view.__dlpack__(copy=True))
    assert (copy.device, copy.ptr != view.ptr) == ("cuda:0", True)
    np.testing.assert_array_equal(copy.copy_to_host(), view.copy_to_host())


class StreamOfAProtocol:
    def __init__(self, handle):
        self.handle = handle

    def __cuda_stream__(self):
        return (0, self.handle)


def test_work_is_ordered_between_streams(driver):
    # Much work on the model's stream, then a copy in another stream that must see the end of it;
    # then the next step must not overwrite what that stream still reads.
    keys = np.random.default_rng(1).integers(0, 1000, (8192, SLOTS))
    model = failing.build("cuda", failing.dataset(keys), hidden=4096, batch=8192)
    twin = failing.build("cuda", failing.dataset(keys), hidden=4096, batch=8192)
    stream = driver.stream()
    kept = Array(driver, np.zeros(model.tensor("relu1").shape, np.float32), stream)
    for step in range(8):
        model.train()
        view = model.tensor("relu1", stream=StreamOfAProtocol(stream) if step % 2 else stream)
        kept.copy_from(view.ptr)
        model.wait_for_stream(stream)
        model.train()
        twin.train()
        expected = twin.check_out_tensor("relu1")
        np.testing.assert_array_equal(interop.to_numpy(kept), expected)
        twin.train()
    kept.free()
    with pytest.raises(hugectr.InvalidArgument, match="stream"):
        model.tensor("relu1", stream="main")


def test_sixteen_bits(driver):
    data = failing.dataset(failing.small_keys())
    model = failing.build("cuda", data, solver={"use_mixed_precision": True, "scaler": 1024.0})
    failing.train(model, 2)
    found = {name: model.tensor(name).dtype for name in ("relu1", "label")}
    assert found == {"relu1": "float16", "label": "float32"}
    view = model.tensor("relu1")
    np.testing.assert_array_equal(through_the_interface(driver, view), view.copy_to_host())
    # Weights written through a view are rounded anew for the 16-bit products.
    weight = model.dense_weight("fc1.weight")
    assert weight.dtype == "float32"
    driver.wait(weight.stream)
    driver.clear(weight.ptr, weight.nbytes)
    model.wait_for_stream(1)
    bias = model.dense_weight("fc1.bias").copy_to_host()
    model.train()
    expected = np.maximum(np.broadcast_to(bias, view.shape), 0)
    np.testing.assert_allclose(model.tensor("relu1").copy_to_host(), expected, rtol=1e-3, atol=1e-6)


def test_training_data_from_the_gpu(driver):
    keys = failing.small_keys()
    stream = driver.stream()
    label = (keys[:, 0] % 2).astype(np.float32)
    dense = np.random.default_rng(11).standard_normal((len(keys), 3)).astype(np.float32)
    arrays = [Array(driver, value, stream) for value in (label, dense, keys)]
    data = hugectr.data.from_arrays(arrays[0], arrays[1], {"keys": arrays[2]})
    for array in arrays:
        array.free()
    plain = hugectr.data.from_arrays(label, dense, {"keys": keys})
    assert failing.train(failing.build("cuda", data), 5) == failing.train(
        failing.build("cuda", plain), 5
    )
