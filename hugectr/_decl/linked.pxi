# SPDX-License-Identifier: Apache-2.0
# Rows in segments of a disk: of a model, to be linked, and of a checkpoint, to be read.


cdef class LinkedRows:
    """See ``_core.pyi``."""

    cdef CppLinkedRows _it

    def order(self):
        order = RowOrder()
        order._it = move(self._it.order)  # not held twice
        return order

    def places(self):
        cdef size_t n = self._it.places.size()
        array = np.empty(n, dtype=np.uint64)
        cdef size_t target = array.ctypes.data
        if n > 0:
            memcpy(<void*>target, self._it.places.data(), n * 8)
        self._it.places = vector[uint64_t]()
        return array

    def row_bytes(self):
        return self._it.row_bytes

    def segments(self):
        cdef CppSharedSegment one
        found = []
        for i in range(self._it.segments.size()):
            one = self._it.segment(i)
            found.append((one.path, one.bytes, one.head, list(one.sums)))
        return found

    def sync(self, size_t number):
        with nogil:
            self._it.sync(number)

    def verify(self, size_t number, bint again):
        with nogil:
            self._it.verify(number, again)


cdef class LinkedSegments:
    """See ``_core.pyi``."""

    cdef unique_ptr[CppLinkedSegments] _it

    def __cinit__(self, size_t row_bytes, segments):
        cdef vector[CppLinkedSegment] files
        cdef CppLinkedSegment one
        for path, size, head in segments:
            one.path, one.bytes, one.head = os.fsencode(path), size, head
            files.push_back(one)
        with nogil:
            self._it.reset(new CppLinkedSegments(row_bytes, files))

    def read(self, places):
        wanted = np.ascontiguousarray(places, np.uint64)
        rows = np.empty((wanted.size, deref(self._it).row_bytes()), dtype=np.uint8)
        cdef size_t begin = wanted.ctypes.data, to = rows.ctypes.data, n = wanted.size
        with nogil:
            cpp_read_linked(deref(self._it), <const uint64_t*>begin, n, <void*>to)
        return rows
