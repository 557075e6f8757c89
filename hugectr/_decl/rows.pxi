# SPDX-License-Identifier: Apache-2.0
# Rows of tables on their way in and out.


def _packed(name, values, shape, dtype):
    """Rows to load as a packed array; a copy only where they are something else."""
    array = np.require(values, dtype, ["C", "A"])
    if array.shape != shape:
        raise InvalidArgument(f"rows to load: {name} must have shape {shape}, found {array.shape}")
    return array


def _packed_state(name, values, shape):
    """An optimizer state of rows of this shape: as many numbers, or one a row."""
    one_a_row = (shape[0], 1)
    return _packed(name, values, one_a_row if np.shape(values) == one_a_row else shape, np.float32)


def _row_arrays(fields):
    """Rows to load: field -> packed array, or None, or (states) a list of them."""
    f = _Fields("rows", fields)
    keys, vectors = f.take("keys", None), np.asarray(f.take("vectors", None), dtype=np.float32)
    if vectors.ndim != 2 or len(keys) != len(vectors):
        raise InvalidArgument(
            f"rows: vectors must have shape (n, d), n = {len(keys)} keys, found {vectors.shape}")
    n, shape = len(keys), vectors.shape
    slots, last, states = f.take("slot_ids", None), f.take("last_step", None), f.take("states", [])
    scores = f.take("scores", None)
    f.done()
    return {
        "keys": _packed("keys", keys, (n,), np.int64),
        "slot_ids": None if slots is None else _packed("slot_ids", slots, (n,), np.uint64),
        "vectors": _packed("vectors", vectors, shape, np.float32),
        "states": [_packed_state(f"state {i}", s, shape) for i, s in enumerate(states)],
        "last_step": None if last is None else _packed("last_step", last, (n,), np.int64),
        "scores": None if scores is None else _packed("scores", scores, (n,), np.uint64),
    }


cdef _view_rows(arrays, CppRowView* view):
    """Points a view at arrays of _row_arrays, which must live as long as it is used."""
    view.size, view.vec_size = arrays["vectors"].shape
    view.keys = <const int64_t*>_pointer(arrays["keys"])
    view.vectors = <const float*>_pointer(arrays["vectors"])
    if arrays["slot_ids"] is not None:
        view.slot_ids = <const uint64_t*>_pointer(arrays["slot_ids"])
    if arrays["last_step"] is not None:
        view.last_step = <const int64_t*>_pointer(arrays["last_step"])
    if arrays["scores"] is not None:
        view.scores = <const uint64_t*>_pointer(arrays["scores"])
    for state in arrays["states"]:
        view.states.push_back(<const float*>_pointer(state))
        view.state_widths.push_back(state.shape[1])


cdef class RowOrder:
    """See ``_core.pyi``."""

    cdef CppRowOrder _it

    def __len__(self):
        return self._it.size()

    def keys(self, size_t begin, size_t end):
        array = np.empty(max(begin, end) - begin, dtype=np.int64)
        self.copy_keys(begin, end, array.ctypes.data)
        return array

    def slot_ids(self, size_t begin, size_t end):
        array = np.empty(max(begin, end) - begin, dtype=np.uint64)
        self.copy_slot_ids(begin, end, array.ctypes.data)
        return array

    cdef copy_keys(self, size_t begin, size_t end, size_t target):
        if end > self._it.keys.size() or begin > end:
            raise InvalidArgument(f"rows {begin} to {end} of an order of {len(self)}")
        if begin < end:
            with nogil:
                memcpy(<void*>target, self._it.keys.data() + begin, (end - begin) * 8)

    cdef copy_slot_ids(self, size_t begin, size_t end, size_t target):
        if end > self._it.slot_ids.size() or begin > end:
            raise InvalidArgument(f"slots {begin} to {end} of {self._it.slot_ids.size()}")
        if begin < end:
            with nogil:
                memcpy(<void*>target, self._it.slot_ids.data() + begin, (end - begin) * 8)


def _place(name, array, n, shape, dtype):
    """Address of the memory of n rows that the core may write to."""
    if not (isinstance(array, np.ndarray) and array.dtype == dtype and array.shape == (n, *shape)
            and array.flags.c_contiguous and array.flags.writeable):
        raise InvalidArgument(
            f"rows to read: {name} must be a packed, writable {np.dtype(dtype)} array of shape "
            f"{(n, *shape)}")
    return array.ctypes.data


def row_owners(placement, keys, slot_ids, size_t devices):
    """See ``_core.pyi``."""
    cdef optional[CppPlacementKind] kind
    cdef vector[int64_t] all_keys = _int64s(keys)
    cdef vector[uint64_t] slots
    if placement is not None:
        kind = placement_named(placement)
    if slot_ids is not None:
        slots = _uint64s(slot_ids)
    return _uint32_array(cpp_row_owners(kind, all_keys, slots, devices))
