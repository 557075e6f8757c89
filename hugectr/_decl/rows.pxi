# SPDX-License-Identifier: Apache-2.0
# Rows of tables on their way in and out.


cdef CppBufferBag _bag(fields) except *:
    f = _Fields("rows", fields)
    cdef CppBufferBag bag
    keys, vectors = f.take("keys", None), np.asarray(f.take("vectors", None), dtype=np.float32)
    if vectors.ndim != 2 or len(keys) != len(vectors):
        raise InvalidArgument(
            f"rows: vectors must have shape (n, d), n = {len(keys)} keys, found {vectors.shape}")
    bag.vec_size = vectors.shape[1]
    bag.keys = _int64s(keys)
    bag.vectors = _floats(vectors)
    slots, last = f.take("slot_ids", None), f.take("last_step", None)
    if slots is not None:
        bag.slot_ids = _uint64s(slots)
    if last is not None:
        bag.last_step = _int64s(last)
    for state in f.take("states", []):
        bag.states.push_back(_floats(state))
    f.done()
    return bag


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
