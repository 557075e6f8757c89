# SPDX-License-Identifier: Apache-2.0
# Tables of collection.pxi whose rows are spread over processes.


cdef class SharedBatch:
    """See ``_core.pyi``."""

    cdef CppSharedBatch _it

    @property
    def token(self):
        return self._it.token

    @property
    def wanted(self):
        return self._it.wanted.counts()


@no_gc_clear
cdef class TableSharing:
    """See ``_core.pyi``."""

    cdef CppTableSharing* _it
    cdef TableCollection _tables  # keeps what the sharing works on
    cdef readonly object _turn
    cdef object _read  # what ask() has the core's thread and device read and write, until count()

    def __cinit__(self, TableCollection tables not None, placements, size_t rank, size_t processes):
        cdef vector[int64_t] holders
        cdef size_t table
        self._it = NULL
        self._tables = tables
        self._turn = tables._turn
        for table, placement in enumerate(placements):
            holders.push_back(CppTableSharing.holder(placement.encode(), table, processes))
        self._it = new CppTableSharing(tables._it[0], holders, rank, processes)

    def __dealloc__(self):
        cdef CppTableSharing* it = self._it
        if it == NULL:
            return
        if (<Turn>self._turn).made_here():
            with nogil:
                it.forget_asked()  # here: what it reads goes with this object
                delete_outside_of_groups(it)

    @property
    def groups(self):
        return [group.d for group in self._it.groups()]

    @property
    def copies_to_all(self):
        return bool(self._it.copies_to_all())

    def on_every_process(self, size_t table):
        return bool(self._it.on_every_process(table))

    def owners(self, size_t table, keys):
        return _int64_array(self._it.owners(table, _int64s(keys)))

    def room(self, size_t keys, size_t mean_bags):
        return self._it.room(keys, mean_bags)

    def ask(self, batch, keys, room, uintptr_t stream=0, cbool beside=False, held=None):
        cdef SharedBatch shared = SharedBatch()
        cdef vector[CppSparseTensor] tables = self._tables._keys(batch)
        cdef vector[CppBagOffsets] bags = self._tables._bags(batch)
        cdef CppTensorRef out = self._tables._ref(keys), words = self._tables._ref(room)
        with nogil:
            self._it.forget_asked()
        self._read = held
        with nogil:
            self._it.ask(shared._it, tables, out, words, stream, move(bags), beside)
        return shared

    def count(self, SharedBatch batch not None):
        try:
            with nogil:
                self._it.count(batch._it)
        finally:
            self._read = None

    def copy_to_all(self, SharedBatch batch not None, keys, out, uintptr_t stream=0):
        cdef CppTensorRef own = self._tables._ref(keys), copies = self._tables._ref(out)
        with nogil:
            self._it.copy_to_all(batch._it, own, copies, stream)

    def answer(self, SharedBatch batch not None, wanted):
        self._it.answer(batch._it, wanted)

    def keys(self, SharedBatch batch not None):
        cdef size_t tables = self._tables._it.size()
        return (batch._it.wanted.of_processes(0, tables), batch._it.given.of_processes(0, tables))

    def vectors(self, SharedBatch batch not None):
        return [(batch._it.returned.of_processes(group.first, group.end),
                 batch._it.asked.of_processes(group.first, group.end))
                for group in self._it.groups()]

    def gradients(self, SharedBatch batch not None):
        return [(batch._it.wanted.of_processes(group.first, group.end),
                 batch._it.given.of_processes(group.first, group.end))
                for group in self._it.groups()]

    def plan(self, SharedBatch batch not None, keys, uintptr_t stream=0, held=None,
             cbool beside=False):
        cdef CppTensorRef came = self._tables._ref(keys)
        with nogil:
            self._it.plan(batch._it, came, stream, beside)
        if batch._it.token != 0:  # else it is not planned, and check() and give() say why
            self._tables._hold(batch._it.token, held)

    def check(self, SharedBatch batch not None):
        with nogil:
            self._it.check(batch._it)

    def make_room(self, SharedBatch batch not None, dtype, cbool gradients=False):
        cdef CppTensorScalarType type = <CppTensorScalarType><int>_COLLECTION_DTYPES[dtype]
        with nogil:
            self._it.make_room(batch._it, type, gradients)

    def give(self, SharedBatch batch not None, list out, uintptr_t stream=0):
        cdef vector[CppTensorRef] vectors = self._tables._refs(out)
        with nogil:
            self._it.give(batch._it, vectors, stream)

    def look_up(self, SharedBatch batch not None, keys, list out, uintptr_t stream=0):
        cdef CppTensorRef came = self._tables._ref(keys)
        cdef vector[CppTensorRef] vectors = self._tables._refs(out)
        with nogil:
            self._it.look_up(batch._it, came, vectors, stream)

    def pool(self, SharedBatch batch not None, list came, outputs, uintptr_t stream=0):
        cdef vector[CppTensorRef] vectors = self._tables._refs(came)
        cdef vector[CppTensorRef] out = self._tables._refs(outputs)
        with nogil:
            self._it.pool(batch._it, vectors, out, stream)

    def sum_gradients(self, SharedBatch batch not None, gradients, double factor, list out,
                      uintptr_t stream=0):
        cdef vector[CppTensorRef] all_gradients = self._tables._refs(gradients)
        cdef vector[CppTensorRef] sums = self._tables._refs(out)
        with nogil:
            self._it.sum_gradients(batch._it, all_gradients, factor, sums, stream)

    def accumulate(self, SharedBatch batch not None, list came, uintptr_t stream=0):
        cdef vector[CppTensorRef] sums = self._tables._refs(came)
        with nogil:
            self._it.accumulate(batch._it, sums, stream)


@no_gc_clear
cdef class SharedCommunicator:
    """See ``_core.pyi``."""

    cdef CppSharedCommunicator* _it
    cdef readonly object _turn

    def __cinit__(self, TableSharing of not None, group):
        cdef CppDeviceId device = of._tables._device
        cdef shared_ptr[CppProcessGroup] processes = _process_group(group)
        self._it = NULL
        self._turn = Turn("communicator")
        with nogil:
            self._it = new CppSharedCommunicator(device, processes)

    def abort(self, str reason not None):
        cdef string text = reason.encode(errors="backslashreplace")
        with nogil:
            self._it.abort(text)

    def __dealloc__(self):
        cdef CppSharedCommunicator* it = self._it
        if it == NULL:
            return
        if (<Turn>self._turn).made_here():
            with nogil:
                delete_outside_of_groups(it)


@no_gc_clear
cdef class TableExchange:
    """See ``_core.pyi``."""

    cdef CppTableExchange* _it
    cdef TableSharing _sharing  # keeps what the exchange works on
    cdef SharedCommunicator _communicator
    cdef readonly object _turn
    cdef object _held  # what the thread reads and writes, until settle()
    cdef SharedBatch _planned  # a batch ahead whose keys travel
    cdef object _read  # what it reads until it is released

    def __cinit__(self, TableSharing sharing not None, SharedCommunicator communicator not None):
        self._it = NULL
        self._sharing = sharing
        self._communicator = communicator
        self._turn = sharing._turn
        self._it = new CppTableExchange(sharing._it[0], communicator._it[0])

    def __dealloc__(self):
        cdef CppTableExchange* it = self._it
        if it == NULL:
            return
        if (<Turn>self._turn).made_here():
            with nogil:
                delete_outside_of_groups(it)

    cdef CppMessages _messages(self, list out, list came) except *:
        cdef CppMessages messages
        messages.out = self._sharing._tables._refs(out)
        messages.came = self._sharing._tables._refs(came)
        return messages

    def give(self, SharedBatch batch not None, list out, list came, uintptr_t stream=0, held=None):
        cdef CppMessages messages = self._messages(out, came)
        self._held = batch, held
        with nogil:
            self._it.give(batch._it, move(messages), stream)

    def accumulate(self, SharedBatch batch not None, list out, list came, uintptr_t stream=0,
                   held=None, ahead=None):
        cdef CppMessages messages = self._messages(out, came)
        cdef CppKeysAhead keys
        keys.batch = NULL
        if ahead is not None:
            planned, keys_out, keys_came, keys.stream, self._read = ahead
            self._planned = planned
            keys.batch = &self._planned._it
            keys.out = self._sharing._tables._ref(keys_out)
            keys.came = self._sharing._tables._ref(keys_came)
        self._held = batch, held
        with nogil:
            self._it.accumulate(batch._it, move(messages), stream, keys)

    def is_under_way(self):
        return self._held is not None

    def settle(self, uintptr_t stream=0):
        try:
            with nogil:
                self._it.settle(stream)
        finally:
            self._held = None
            if self._planned is not None and self._planned._it.token != 0:
                self._sharing._tables._hold(self._planned._it.token, self._read)
            self._planned = self._read = None
