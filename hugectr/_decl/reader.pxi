# SPDX-License-Identifier: Apache-2.0
# Where the batches of a Session come from.


cdef class SessionReader:
    """See ``_core.pyi``."""

    cdef CppSessionReader* _it
    cdef Session _session  # keeps it: it is a part of that
    cdef readonly object _turn

    def __cinit__(self, Session session not None):
        self._it = &session._it.reader()
        self._session = session
        self._turn = session._turn

    def start(self):
        with nogil:
            self._it.start()

    def stop(self):
        with nogil:
            self._it.stop()

    def set_source(self, str source):
        cdef string name = _path_bytes(source)
        with nogil:
            self._it.set_source(name)

    def set_eval_source(self, str source):
        cdef string name = _path_bytes(source)
        with nogil:
            self._it.set_eval_source(name)

    def at_end(self):
        return bool(self._it.at_end())

    def eval_at_end(self):
        return bool(self._it.eval_at_end())

    def eval_samples(self):
        return int(self._it.eval_samples())

    def position(self):
        cdef CppReadPosition p = self._it.position()
        return dict(epoch=p.epoch, sample=p.sample, file=p.file, record=p.record, byte=p.byte)

    def set_position(self, position):
        cdef CppReadPosition p = _read_position(position)
        with nogil:
            self._it.set_position(p)

    def metrics(self, train):
        cdef CppReaderMetrics m
        cdef cbool training = train
        with nogil:
            m = self._it.metrics(training)
        return _reader_metrics(m)
