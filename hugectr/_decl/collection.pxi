# SPDX-License-Identifier: Apache-2.0
# Tables without a model, for who has forward and backward of their own. Memory comes as tuples
# (address, shape, dtype), with a row stride behind them where rows are not packed: the caller keeps
# it as long as TableCollection says.


@no_gc_clear  # in a circle, what batches read has to be there when it goes
cdef class TableCollection:
    """See ``_core.pyi``."""

    cdef CppTableCollection* _it
    cdef CppDeviceId _device
    cdef readonly object _turn
    cdef dict _held  # token -> what is kept as long as the batch
    cdef object __weakref__

    def __cinit__(self, list tables, device="cpu", int device_id=0, uint64_t seed=0):
        self._it = NULL
        self._turn = Turn("collection")
        self._held = {}
        cdef vector[CppTableParams] params
        for number, table in enumerate(tables):
            params.push_back(_table_params(number, table))
        self._device.type = _device_type(device)
        self._device.index = device_id
        cdef CppDeviceId where = self._device
        with nogil:
            self._it = new CppTableCollection(params, where, seed)

    def __dealloc__(self):
        cdef CppTableCollection* it = self._it
        if it == NULL:
            return
        if (<Turn>self._turn).made_here():  # else its threads and its memory are the parent's
            with nogil:
                delete_outside_of_groups(it)

    cdef void _hold(self, uint64_t token, held) except *:
        # No code of Python's runs between this and the core's call: an interrupt there would give
        # back what the core's threads are about to read and write.
        self._held[token] = held
        if held is not None:
            held.token = token

    cdef vector[CppTensorRef] _refs(self, tensors) except *:
        cdef vector[CppTensorRef] refs
        if isinstance(tensors, tuple):
            whole, dims = tensors
            return columns_of(self._ref(whole), dims)
        for tensor in tensors:
            refs.push_back(self._ref(tensor))
        return refs

    cdef CppTensorRef _ref(self, tensor) except *:
        cdef CppTensorRef ref
        if tensor is None:
            return ref
        address, shape, dtype, *stride = tensor
        ref.data = <void*><uintptr_t>address
        ref.dtype = <CppTensorScalarType><int>_COLLECTION_DTYPES[dtype]
        ref.device = self._device
        ref.shape = shape
        ref.row_stride = stride[0] if stride else ref.row_size()
        return ref

    cdef vector[CppSparseTensor] _keys(self, batch) except *:
        cdef vector[CppSparseTensor] tables
        cdef CppSparseTensor table
        if isinstance(batch, tuple):
            values, starts, bags, order = batch[:4]
            return pieces_of(self._ref(values), starts, self._ref(bags), order)
        for keys, offsets in batch:
            table.keys = self._ref(keys)
            table.row_offsets = self._ref(offsets)
            table.nnz = keys[1][0]
            tables.push_back(table)
        return tables

    cdef vector[CppBagOffsets] _bags(self, batch) except *:
        cdef vector[CppBagOffsets] none
        if isinstance(batch, tuple) and len(batch) > 4:
            return bags_of(self._ref(batch[4]), batch[1], self._ref(batch[2]))
        return none

    def plan(self, batch, uintptr_t stream=0, held=None):
        cdef vector[CppSparseTensor] keys = self._keys(batch)
        cdef vector[CppBagOffsets] bags = self._bags(batch)
        cdef uint64_t token
        with nogil:
            token = self._it.plan(keys, stream, move(bags))
        self._hold(token, held)
        return token

    def begin(self, batch, uintptr_t stream=0, held=None, cbool beside=False):
        cdef vector[CppSparseTensor] keys = self._keys(batch)
        cdef vector[CppBagOffsets] bags = self._bags(batch)
        cdef uint64_t token
        with nogil:
            token = self._it.begin(keys, stream, move(bags), beside)
        self._hold(token, held)
        return token

    def forward(self, uint64_t token, outputs, uintptr_t stream=0):
        cdef vector[CppTensorRef] vectors = self._refs(outputs)
        with nogil:
            self._it.forward(token, vectors, stream)

    def look_up(self, batch, outputs, uintptr_t stream=0):
        cdef vector[CppSparseTensor] keys = self._keys(batch)
        cdef vector[CppBagOffsets] bags = self._bags(batch)
        cdef vector[CppTensorRef] vectors = self._refs(outputs)
        with nogil:
            self._it.look_up(keys, vectors, stream, move(bags))

    def accumulate(self, uint64_t token, gradients, uintptr_t stream=0):
        cdef vector[CppTensorRef] all_gradients = self._refs(gradients)
        with nogil:
            self._it.accumulate(token, all_gradients, stream)

    def update(self, uint64_t token, gradients, rates, uintptr_t stream=0):
        cdef vector[CppTensorRef] all_gradients = self._refs(gradients)
        cdef vector[float] all_rates = rates
        with nogil:
            self._it.update(token, all_gradients, all_rates, stream)

    def accumulate_nothing(self):
        self._it.accumulate_nothing()

    def squares(self, squares, uintptr_t stream=0):
        cdef CppTensorRef ref = self._ref(squares)
        with nogil:
            self._it.squares(ref, stream)

    def step(self, rates, unscale=None, uintptr_t stream=0):
        cdef vector[float] all_rates = rates
        cdef CppTensorRef ref = self._ref(unscale)
        with nogil:
            self._it.step(all_rates, ref, stream)

    def clear_gradients(self):
        with nogil:
            self._it.clear_gradients()

    def has_gradients(self):
        return bool(self._it.has_gradients())

    def release(self, uint64_t token):
        with nogil:
            self._it.release(token)
        self._held.pop(token, None)

    def is_alive(self, uint64_t token):
        return token in self._held

    def release_all(self):
        for token in list(self._held):
            self.release(token)

    def steps(self):
        return self._it.steps()

    def set_steps(self, int64_t steps):
        self._it.set_steps(steps)

    def set_trainable(self, size_t table, cbool trainable):
        if trainable:
            self._it.table(table).unfreeze()
        else:
            self._it.table(table).freeze()

    def is_trainable(self, size_t table):
        return bool(self._it.table(table).is_trainable())

    def frozen_steps(self):
        return [self._it.table(t).trained_steps().left_out() for t in range(self._it.size())]

    def set_frozen_steps(self, steps):
        cdef vector[int64_t] every = steps
        if every.size() != self._it.size():
            raise InvalidArgument(f"frozen steps of {every.size()} tables, not {self._it.size()}")
        for table in range(every.size()):
            self._it.table(table).trained_steps().set_left_out(every[table])

    def tables(self):
        return [CollectionTable(self, index) for index in range(self._it.size())]

    def memory_report(self):
        cdef vector[CppMemoryReportEntry] entries
        with nogil:
            entries = self._it.memory_report()
        return [(entry.owner, entry.name, entry.bytes) for entry in entries]


_COLLECTION_DTYPES = {**_COMPUTE_DTYPES, "float64": _DTYPES["float64"], "int64": _DTYPES["int64"],
                      "uint32": _DTYPES["uint32"], "int32": _DTYPES["int32"]}


cdef CppTableParams _table_params(size_t number, table) except *:
    f = _Fields("table", table)
    cdef CppTableParams params
    params.name = f.take("name", f"table{number}")
    params.table_id = number
    params.slot_num = 1
    params.i64_keys = True
    params.embedding_vec_size = f.take("embedding_vec_size", 0)
    params.combiner = <CppCombiner><int>f.choose("combiner", "sum", _COMBINERS)
    params.max_vocabulary_size_per_gpu = f.take("max_vocabulary_size_per_gpu", 0)
    params.vector_type = _compute_dtype(f.take("vector_type", "float32"))
    params.initial.kind = <CppInitialKind><int>f.choose("initial", "uniform", _INITIAL_KINDS)
    params.initial.bound = f.take("initial_bound", 0.0)
    params.opt_params = _opt_params(f.take("opt_params", {}))
    params.memory = _table_memory(f)
    f.done()
    return params


cdef class CollectionTable(TableAccess):
    """See ``_core.pyi``."""

    cdef TableCollection _collection  # keeps the table: it is a part of that

    def __cinit__(self, TableCollection collection not None, size_t index):
        self._it = &collection._it.access(index)
        self._collection = collection
        self._turn = collection._turn
