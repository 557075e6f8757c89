# SPDX-License-Identifier: Apache-2.0
# Predictions: from any number of threads of a model that is only read, and of one that trains.


cdef shared_ptr[CppMemoryData] _samples(
        size_t count, dense, sparse, label, weight=None) except *:
    """Samples in memory; keys and offsets of each sparse input in the model's order."""
    cdef shared_ptr[CppMemoryData] data = make_shared[CppMemoryData]()
    cdef CppMemorySparse one
    data.get().samples = count
    data.get().dense = _floats(dense)
    if label is not None:
        data.get().label = _floats(label)
    if weight is not None:
        data.get().weight = _floats(weight)
    for keys, offsets in sparse:
        one.keys = _int64s(keys)
        one.row_offsets = _uint64s(offsets)
        data.get().sparse.push_back(move(one))
    return data


cdef CppMemoryView _samples_there(size_t count, dense, sparse, list kept) except *:
    """Samples where their arrays lie. What had to be made for that goes into ``kept``, to stay."""
    cdef CppMemoryView view
    cdef CppMemoryViewSparse one
    view.samples = count
    numbers = np.ascontiguousarray(dense, np.float32)
    kept.append(numbers)
    view.dense = CppFloatSpan(<const float*>_pointer(numbers), numbers.size)
    for keys, offsets in sparse:
        keys = np.ascontiguousarray(keys, np.int64)
        offsets = np.ascontiguousarray(offsets, np.uint64)
        kept += [keys, offsets]
        one.keys = CppInt64Span(<const int64_t*>_pointer(keys), keys.size)
        one.row_offsets = CppUint64Span(<const uint64_t*>_pointer(offsets), offsets.size)
        view.sparse.push_back(one)
    return view


def read_description(str path):
    """See ``_core_serving.pyi``."""
    cdef string place = path
    cdef CppSavedDescription found
    with nogil:
        found = cpp_read_description(place)
    return dict(path=found.path, step=found.step, batchsize_eval=found.batchsize_eval,
                model=found.model, schema=found.schema, table_rows=list(found.table_rows))


cdef object _outputs(const vector[float]& values, size_t count, const vector[size_t]& shape):
    """One value a sample as (n), several as (n, ...)."""
    if shape.size() == 1 and shape[0] == 1:
        return _float_array(values)
    of_one = tuple(shape)  # a vector can not be unpacked in place
    return _float_array(values).reshape((count, *of_one))


@no_gc_clear  # in a circle its parts have to be there when it goes
cdef class Predictor:
    """See ``_core.pyi``."""

    cdef CppPredictor* _it
    cdef readonly object _turn
    cdef readonly Session session

    def __cinit__(self, Session session not None):
        self._it = NULL
        self.session = session
        self._turn = session._turn
        with nogil:
            self._it = new CppPredictor(deref(session._it))

    def __dealloc__(self):
        cdef CppPredictor* it = self._it
        if (<Turn>self._turn).made_here():  # else its memory is the parent's
            with nogil:
                delete_outside_of_groups(it)

    def predict(self, size_t count, dense, sparse, str output="probability", size_t batch_size=0):
        (<Turn>self.session._turn).check()
        cdef list kept = []
        cdef CppMemoryView samples = _samples_there(count, dense, sparse, kept)
        cdef string name = output
        cdef vector[float] values
        cdef vector[size_t] shape
        with nogil:
            values = self._it.predict(samples, name, batch_size)
            shape = self._it.sample_shape(name)
        return _outputs(values, count, shape)

    def executions(self):
        return self._it.executions()


@no_gc_clear
cdef class LivePredictor:
    """See ``_core.pyi``."""

    cdef CppLivePredictor* _it
    cdef readonly object _turn
    cdef readonly Session session

    def __cinit__(self, Session session not None, size_t batch_size):
        self._it = NULL
        self.session = session
        self._turn = session._turn
        with nogil:
            self._it = new CppLivePredictor(deref(session._it), batch_size)

    def __dealloc__(self):
        cdef CppLivePredictor* it = self._it
        if (<Turn>self._turn).made_here():
            with nogil:
                delete_outside_of_groups(it)

    def predict(self, size_t count, dense, sparse, str output="probability"):
        cdef CppMemoryPtr data = <CppMemoryPtr>_samples(count, dense, sparse, None)
        cdef string name = output
        cdef vector[float] values
        cdef vector[size_t] shape
        with nogil:
            values = self._it.predict(data, name)
            shape = self._it.sample_shape(name)
        return _outputs(values, count, shape)

    def evaluate(self, size_t count, label, dense, sparse, metrics, weight=None):
        cdef CppMemoryPtr data = <CppMemoryPtr>_samples(count, dense, sparse, label, weight)
        cdef vector[string] names = metrics
        cdef vector[pair[string, double]] values
        with nogil:
            values = self._it.evaluate(data, names)
        return [(item.first, item.second) for item in values]
