# SPDX-License-Identifier: Apache-2.0
"""Memory shared with other libraries: views of a model, DLPack both ways, lifetime, order."""

import ctypes
import gc
import weakref

import numpy as np
import pytest

import hugectr
from hugectr import interop
from hugectr.data import from_arrays

VEC, SLOTS, BATCH = 8, 4, 64


@pytest.fixture
def model(make_model):
    made = make_model(vvgpu=[[0, 1]])
    made.compile()
    for _ in range(3):
        made.train()
    return made


class Foreign:
    """An array of another library: DLPack of version 0 only, as old ones speak it."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, stream=None):
        assert stream is None
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_tensors_are_the_models_own_memory(model):
    for device in (0, 1):
        view = model.tensor("relu1", device=device)
        assert (view.shape, view.dtype, view.device) == ((BATCH // 2, 16), "float32", "cpu")
        half = slice(device * BATCH // 2, (device + 1) * BATCH // 2)
        np.testing.assert_array_equal(np.asarray(view), model.check_out_tensor("relu1")[half])
    array = np.asarray(model.tensor("relu1"))
    assert array.ctypes.data == model.tensor("relu1").ptr
    before = array.copy()
    model.train()
    model.tensor("relu1").wait()
    assert np.any(array != before)
    np.testing.assert_array_equal(array, model.check_out_tensor("relu1")[: BATCH // 2])


def test_strided_rows(model):
    # The table's output lies in the columns of its Concat.
    view = model.tensor("vectors")
    assert view.shape == (BATCH // 2, SLOTS, VEC)
    array = np.asarray(view)
    assert array.strides == view.strides
    assert view.strides[0] > SLOTS * VEC * 4
    np.testing.assert_array_equal(array, model.check_out_tensor("vectors")[: BATCH // 2])
    np.testing.assert_array_equal(np.from_dlpack(view), array)
    np.testing.assert_array_equal(view.copy_to_host(), array)
    assert view.copy_to_host().flags.c_contiguous
    np.testing.assert_array_equal(np.asarray(interop.as_view(Foreign(array))), array)


def test_evaluation_tensors(model):
    assert model.eval()
    np.testing.assert_array_equal(
        np.asarray(model.tensor("logit", False)),
        model.check_out_tensor("logit", hugectr.Tensor_t.Evaluate)[: BATCH // 2],
    )


def test_dense_weights_can_be_read_and_written(model):
    names = model.dense_weight_names()
    assert {"fc1.weight", "fc1.bias"} <= set(names)
    flat = model.session.network.dense_weights()
    parts = [np.asarray(model.dense_weight(name)).ravel() for name in names]
    np.testing.assert_array_equal(np.concatenate(parts), flat)
    weight = np.asarray(model.dense_weight("fc1.weight"))
    before = weight.copy()
    model.train()
    model.dense_weight("fc1.weight").wait()
    assert np.any(weight != before)

    rng = np.random.default_rng()
    values = rng.standard_normal(weight.shape).astype(np.float32)
    for given in (values, Foreign(values), values.astype(np.float64), values.tolist()):
        model.set_dense_weight("fc1.weight", np.zeros_like(values))
        model.set_dense_weight("fc1.weight", given)
        for device in (0, 1):
            shown = np.asarray(model.dense_weight("fc1.weight", device=device))
            np.testing.assert_array_equal(shown, values)
    flat = rng.standard_normal(flat.size).astype(np.float32)
    model.set_dense_weights(Foreign(flat))
    np.testing.assert_array_equal(model.session.network.dense_weights(), flat)


def test_table_rows(model):
    bag = model.session.table(0).dump(True)
    stored = {
        (slot, key): (vector, [state[i] for state in bag["states"]])
        for i, (slot, key, vector) in enumerate(
            zip(bag["slot_ids"].tolist(), bag["keys"].tolist(), bag["vectors"], strict=True)
        )
    }
    found = 0
    for device in (0, 1):
        rows = model.table("vectors", device=device)
        found += len(rows)
        assert rows.vectors.shape == (len(rows), VEC)
        assert len(rows.states) == 2  # Adam
        slots, keys = np.asarray(rows.slot_ids), np.asarray(rows.keys)
        assert keys.dtype == np.uint32
        assert set(slots % 2) == {device}
        for i, place in enumerate(zip(slots.tolist(), keys.tolist(), strict=True)):
            vector, states = stored[place]
            np.testing.assert_array_equal(np.asarray(rows.vectors)[i], vector)
            for shown, state in zip(rows.states, states, strict=True):
                np.testing.assert_array_equal(np.asarray(shown)[i], state)
    assert found == len(stored) > 50


def test_a_view_stays_good_while_the_table_grows(make_model):
    model = make_model(vvgpu=[[0]])
    model.compile()
    model.train()
    first = model.table("vectors")
    keys = np.asarray(first.keys).copy()
    place = first.vectors.ptr
    more = 20_000
    slot = np.zeros(more, np.int64)
    vectors = np.random.default_rng().standard_normal((more, VEC)).astype(np.float32)
    model.set_table_rows("vectors", Foreign(np.arange(1000, 1000 + more)), vectors, slot)
    grown = model.table("vectors")
    assert len(grown) == len(first) + more
    assert grown.vectors.ptr == place
    np.testing.assert_array_equal(np.asarray(first.keys), keys)
    np.testing.assert_array_equal(np.asarray(grown.keys)[: len(first)], keys)
    # Threads insert: rows come in any order.
    order = np.asarray(grown.keys)[len(first) :].astype(np.int64) - 1000
    np.testing.assert_array_equal(np.sort(order), np.arange(more))
    np.testing.assert_array_equal(np.asarray(grown.vectors)[len(first) :], vectors[order])
    model.train()
    shown = np.asarray(first.vectors)
    bag = model.session.table(0).dump()
    by_key = dict(zip(zip(bag["slot_ids"], bag["keys"], strict=True), bag["vectors"], strict=True))
    for slot_id, key, vector in zip(np.asarray(first.slot_ids), keys, shown, strict=True):
        np.testing.assert_array_equal(by_key[slot_id, key], vector)


@pytest.mark.parametrize("through", ["interface", "legacy", "versioned", "view"])
def test_memory_outlives_the_model(make_model, through):
    model = make_model()
    model.compile()
    model.train()
    expected = model.check_out_tensor("relu1")[: BATCH // 2]
    view = model.tensor("relu1")
    if through == "interface":
        kept = np.asarray(view)
    elif through == "versioned":
        kept = np.from_dlpack(view)
    elif through == "legacy":
        kept = interop.as_view(Foreign(view))
    else:
        kept = view
    gone = weakref.ref(model)
    del model
    if through != "view":
        del view
    gc.collect()
    assert gone() is None
    others = [np.random.default_rng().standard_normal((64, 16)) for _ in range(200)]
    np.testing.assert_array_equal(np.asarray(kept), expected)
    del kept, others
    gc.collect()


def test_foreign_memory_is_kept_and_given_back():
    array = np.arange(6.0)
    holder = Foreign(array)
    count = weakref.ref(holder)
    view = interop.as_view(holder)
    assert view.ptr == array.ctypes.data  # no copy
    again = np.from_dlpack(view)
    base = weakref.ref(array)
    del array, holder
    gc.collect()
    assert count() is None
    assert base() is not None
    del view
    gc.collect()
    np.testing.assert_array_equal(again, np.arange(6.0))
    del again
    gc.collect()
    assert base() is None


def test_an_unused_capsule_is_given_back():
    array = np.arange(5.0)
    view = interop.as_view(array)
    for version in (None, (1, 0), (1, 7), (0, 8)):
        capsule = view.__dlpack__(max_version=version)
        name = ctypes.pythonapi.PyCapsule_GetName
        name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
        versioned = version is not None and version[0] >= 1
        assert name(capsule) == (b"dltensor_versioned" if versioned else b"dltensor")
        del capsule
    base = weakref.ref(array)
    del array, view
    gc.collect()
    assert base() is None


def test_a_capsule_is_used_once():
    capsule = interop.as_view(np.arange(3.0)).__dlpack__()
    assert hugectr._core.view_of_dlpack(capsule).shape == (3,)
    with pytest.raises(hugectr.InvalidArgument, match="used already"):
        hugectr._core.view_of_dlpack(capsule)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "i8", "u1", "u4", "u8"])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 4), (2, 3, 4), (0, 3)])
def test_dtypes_and_shapes_go_both_ways(dtype, shape):
    array = (np.random.default_rng().random(shape) * 100).astype(dtype)
    view = interop.as_view(np.asarray(array))
    assert (view.shape, view.dtype, view.nbytes) == (array.shape, array.dtype.name, array.nbytes)
    for back in (np.asarray(view), np.from_dlpack(view), view.copy_to_host()):
        assert back.dtype == array.dtype
        np.testing.assert_array_equal(back, array)


class BFloat16Array:
    """A bfloat16 array of another library, by hand: NumPy can make none."""

    class Tensor(ctypes.Structure):
        _fields_ = (
            ("data", ctypes.c_void_p),
            ("device", ctypes.c_int32 * 2),
            ("ndim", ctypes.c_int32),
            ("code", ctypes.c_uint8),
            ("bits", ctypes.c_uint8),
            ("lanes", ctypes.c_uint16),
            ("shape", ctypes.POINTER(ctypes.c_int64)),
            ("strides", ctypes.POINTER(ctypes.c_int64)),
            ("byte_offset", ctypes.c_uint64),
            ("manager", ctypes.c_void_p),
            ("deleter", ctypes.c_void_p),
        )

    def __init__(self, bits, code=4):
        self.bits = np.ascontiguousarray(bits, np.uint16)
        self.shape = (ctypes.c_int64 * self.bits.ndim)(*self.bits.shape)
        self.deleted = 0

        @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        def deleter(_):
            self.deleted += 1

        self.deleter = deleter
        self.tensor = self.Tensor(
            data=self.bits.ctypes.data,
            device=(1, 0),
            ndim=self.bits.ndim,
            code=code,
            bits=16,
            lanes=1,
            shape=self.shape,
            deleter=ctypes.cast(deleter, ctypes.c_void_p).value,
        )

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, stream=None):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        self.name = b"dltensor"
        return new(ctypes.addressof(self.tensor), self.name, None)


def test_bfloat16_goes_through_dlpack():
    values = np.random.default_rng().standard_normal((4, 3)).astype(np.float32)
    bits = (values.view(np.uint32) >> 16).astype(np.uint16)
    foreign = BFloat16Array(bits)
    view = interop.as_view(foreign)
    assert (view.dtype, view.shape, view.nbytes) == ("bfloat16", (4, 3), 24)
    assert not hasattr(view, "__array_interface__")
    wanted = (bits.astype(np.uint32) << 16).view(np.float32)
    for found in (view.copy_to_host(), np.asarray(view), interop.to_numpy(foreign)):
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, wanted)
    again = interop.as_view(Foreign(view))
    assert (again.dtype, again.ptr) == ("bfloat16", view.ptr)
    taken = foreign.deleted
    del view
    gc.collect()
    assert foreign.deleted == taken  # the second view still uses it
    del again
    gc.collect()
    assert foreign.deleted == taken + 1
    with pytest.raises(hugectr.InvalidArgument, match="type code 5 with 16 bits"):
        interop.as_view(BFloat16Array(bits, code=5))


def test_what_can_not_be_handed_out_is_said():
    view = interop.as_view(np.arange(6.0).reshape(2, 3))
    assert not hasattr(view, "__cuda_array_interface__")
    assert view.__dlpack_device__() == (1, 0)
    assert view.stream is None
    with pytest.raises(BufferError, match="stream=None"):
        view.__dlpack__(stream=1)
    with pytest.raises(BufferError, match="DLPack device"):
        view.__dlpack__(dl_device=(2, 0))
    copy = np.from_dlpack(view, copy=True)
    assert copy.ctypes.data != view.ptr
    np.testing.assert_array_equal(copy, np.asarray(view))
    with pytest.raises(hugectr.InvalidArgument, match="takes no stream"):
        view.order_before(1)
    with pytest.raises(hugectr.InvalidArgument, match="TensorView"):
        interop.TensorView()


def test_what_can_not_be_taken_is_said():
    with pytest.raises(hugectr.InvalidArgument, match="only axis 0"):
        interop.as_view(np.zeros((4, 4)).T)
    with pytest.raises(hugectr.InvalidArgument, match=r"dimension 1 .*contiguous copy"):
        interop.as_view(Foreign(np.zeros((4, 4), np.float32).T))
    with pytest.raises(hugectr.InvalidArgument, match="overlap"):
        interop.as_view(Foreign(np.zeros((4, 4), np.float32)[::-1]))
    with pytest.raises(hugectr.InvalidArgument, match="dtype bool"):
        interop.as_view(np.zeros(3, bool))
    with pytest.raises(hugectr.InvalidArgument, match="takes no stream"):
        interop.as_view(np.zeros(3), stream=1)


def test_wrong_names_are_said(model):
    with pytest.raises(hugectr.InvalidArgument, match=r"no tensor 'relu'.*relu1"):
        model.tensor("relu")
    with pytest.raises(hugectr.InvalidArgument, match="names can be looked at"):
        model.tensor("relu1@grad")
    with pytest.raises(hugectr.InvalidArgument, match=r"no dense weight 'fc1'.*'fc1\.weight'"):
        model.dense_weight("fc1")
    with pytest.raises(hugectr.InvalidArgument, match=r"embedding.*did you mean 'vectors'"):
        model.table("vector")
    for call in (model.tensor, model.dense_weight, model.table):
        with pytest.raises(hugectr.InvalidArgument, match=r"device: found 2.*from 0 to 1"):
            call("vectors", device=2)
    with pytest.raises(hugectr.InvalidArgument, match=r"'fc1\.weight' is float32"):
        model.set_dense_weight("fc1.weight", np.zeros(3, np.float32))
    with pytest.raises(hugectr.InvalidArgument, match="7 values given"):
        model.set_dense_weights(np.zeros(7))
    with pytest.raises(hugectr.InvalidArgument, match="CPU waits for no stream"):
        model.wait_for_stream(1)
    with pytest.raises(hugectr.InvalidArgument, match="takes no stream"):
        model.tensor("relu1", stream=1)


def test_rows_may_be_views_of_the_table_itself(model):
    for device in (0, 1):
        table = model.table("vectors", device=device)
        keys, slots = (np.array(part) for part in (table.keys, table.slot_ids))
        wanted = np.array(table.vectors)[::-1]
        model.set_table_rows("vectors", keys[::-1], table.vectors, slots[::-1])
        bag = model.session.table(0).dump(True)
        found = dict(
            zip(zip(bag["slot_ids"], bag["keys"], strict=True), bag["vectors"], strict=True)
        )
        for slot, key, vector in zip(slots, keys, wanted, strict=True):
            np.testing.assert_array_equal(found[slot, key], vector)


def test_rows_may_lie_anywhere(model):
    """Parts of a message, say: not where their types want to begin, and with gaps."""
    vectors = np.arange(3 * VEC, dtype=np.float32).reshape(3, VEC)

    def shifted(array):
        memory = np.zeros(array.nbytes + 1, np.uint8)
        memory[1:] = array.view(np.uint8).reshape(-1)
        return memory[1:].view(array.dtype).reshape(array.shape)

    keys = np.array([90001, 90002, 90003], np.int64)
    slots = np.array([0, 1, 2 % SLOTS], np.uint64)
    wide = np.repeat(vectors, 2, axis=1)[:, ::2]
    for given in (shifted(vectors), wide, vectors.astype(np.float64)):
        bag = {"keys": shifted(keys), "slot_ids": shifted(slots), "vectors": given, "states": []}
        model.session.table(0).load(bag)
        found = model.session.table(0).dump()
        at = np.isin(found["keys"], keys)
        order = np.argsort(found["keys"][at])
        np.testing.assert_array_equal(found["vectors"][at][order], vectors)
        model.set_table_rows("vectors", keys, vectors * 0, slots)


def test_bad_rows_change_nothing(model):
    before = model.session.table(0).dump(True)
    vectors = np.ones((2, VEC), np.float32)
    with pytest.raises(hugectr.InvalidArgument, match=rf"has {SLOTS} slots.*slot {SLOTS}"):
        model.set_table_rows("vectors", [5, 6], vectors, [0, SLOTS])
    with pytest.raises(hugectr.InvalidArgument, match=f"has {SLOTS} slots"):
        model.set_table_rows("vectors", [5, 6], vectors, [0, -1])
    with pytest.raises(hugectr.InvalidArgument, match="need a slot id a key"):
        model.set_table_rows("vectors", [5, 6], vectors)
    with pytest.raises(hugectr.InvalidArgument, match="reserved 4294967295"):
        model.set_table_rows("vectors", [5, 0xFFFFFFFF], vectors, [0, 1])
    with pytest.raises(hugectr.InvalidArgument, match="dtype of keys"):
        model.set_table_rows("vectors", [5.5, 6.0], vectors, [0, 1])
    after = model.session.table(0).dump(True)
    for name in ("keys", "slot_ids", "vectors"):
        np.testing.assert_array_equal(after[name], before[name])
    model.train()


class StreamOfAProtocol:
    def __init__(self, answer):
        self.answer = answer

    def __cuda_stream__(self):
        return self.answer


def test_streams_are_handles_or_follow_the_protocol():
    attribute = type("Old", (), {"__cuda_stream__": (0, 12)})()
    for stream, handle in (
        (5, 5),
        (np.int64(7), 7),
        (StreamOfAProtocol((0, 9)), 9),
        (attribute, 12),
    ):
        assert interop.stream_handle(stream) == handle
    for wrong in (None, -1, "s", True, 1.5, StreamOfAProtocol((1, 9)), StreamOfAProtocol(9)):
        with pytest.raises(hugectr.InvalidArgument, match="stream"):
            interop.stream_handle(wrong)


def test_training_data_from_any_array():
    keys = np.arange(12).reshape(4, 3)
    label, dense = np.array([0, 1, 1, 0], np.float32), np.random.default_rng().random((4, 2))
    plain = from_arrays(label, dense, {"ids": keys})
    for wrap in (Foreign, interop.as_view):
        data = from_arrays(wrap(label), wrap(dense), {"ids": wrap(keys)})
        np.testing.assert_array_equal(data.label, plain.label)
        np.testing.assert_array_equal(data.dense, plain.dense)
        for a, b in zip(data.sparse["ids"], plain.sparse["ids"], strict=True):
            np.testing.assert_array_equal(a, b)
    csr = from_arrays(label, None, {"ids": (Foreign(keys.ravel()), Foreign(np.arange(13)))})
    np.testing.assert_array_equal(csr.sparse["ids"][0], plain.sparse["ids"][0])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_rows_that_are_not_finite_are_refused(model, value):
    vectors = np.ones((3, VEC), np.float32)
    vectors[1, 2] = value
    before = model.session.table(0).dump()
    with pytest.raises(hugectr.InvalidArgument, match=r"row 1, of key 8: .*finite numbers"):
        model.set_table_rows("vectors", [7, 8, 9], vectors, [0, 0, 0])
    after = model.session.table(0).dump()
    for name in ("keys", "vectors"):
        np.testing.assert_array_equal(before[name], after[name])
