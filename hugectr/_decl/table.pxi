# SPDX-License-Identifier: Apache-2.0
# A table of a Session or of a collection: its rows in and out.


cdef class TableAccess:
    """See ``_core.pyi``."""

    cdef CppTableAccess* _it
    cdef readonly object _turn

    def name(self):
        return self._it.name()

    def dump(self, with_states=False):
        order = self.order()
        return self.read(order, 0, len(order), with_states)

    def order(self, uint32_t since=0):
        order = RowOrder()
        with nogil:
            order._it = self._it.order(since)
        return order

    def read(self, RowOrder order not None, size_t begin, size_t end, with_states=True, out=None):
        # The core writes straight into the arrays: a table is not held twice.
        cdef CppRowValues values
        parts = self.parts()
        states = [s for part, (_, s) in parts.items() if with_states and part.startswith("state")]
        if begin > end or end > order._it.size():
            raise InvalidArgument(f"rows {begin} to {end} of an order of {len(order)}")
        n, shape = end - begin, parts["vector"][1]
        last_step = with_states and "last_step" in parts
        scores = with_states and self._it.keeps_scores()
        scores = scores and (out is None or out.get("scores") is not None)
        if out is None:
            out = {
                "keys": np.empty(n, dtype=np.int64),
                "slot_ids": np.empty(n, dtype=np.uint64) if "slot" in parts else None,
                "vectors": np.empty((n, *shape), dtype=np.float32),
                "states": [np.empty((n, *width), dtype=np.float32) for width in states],
                "last_step": np.empty(n, dtype=np.int64) if last_step else None,
                "scores": np.empty(n, dtype=np.uint64) if scores else None,
            }
        if len(out["states"]) != len(states):
            raise InvalidArgument(f"rows have {len(states)} states, out has {len(out['states'])}")
        order.copy_keys(begin, end, _place("keys", out["keys"], n, (), np.int64))
        if "slot" in parts:
            order.copy_slot_ids(begin, end, _place("slot_ids", out["slot_ids"], n, (), np.uint64))
        values.vectors = <float*><size_t>_place("vectors", out["vectors"], n, shape, np.float32)
        values.last_step = NULL
        values.scores = NULL
        for array, width in zip(out["states"], states, strict=True):
            state = _place("states", array, n, width, np.float32)
            values.states.push_back(<float*><size_t>state)
        if last_step:
            steps = _place("last_step", out["last_step"], n, (), np.int64)
            values.last_step = <int64_t*><size_t>steps
        if scores:
            places = _place("scores", out["scores"], n, (), np.uint64)
            values.scores = <uint64_t*><size_t>places
        with nogil:
            self._it.read(order._it, begin, end, values)
        return out

    def check_undamaged(self):
        with nogil:
            self._it.check_undamaged()

    def stored(self, RowOrder order not None):
        cdef CppStoredSplit split
        cdef LinkedRows linked
        with nogil:
            split = cpp_stored(deref(self._it), order._it)
        rest, found = RowOrder(), []
        (<RowOrder>rest)._it = move(split.rest)
        for i in range(split.linked.size()):
            linked = LinkedRows()
            linked._it = move(split.linked[i])
            found.append(linked)
        return rest, found

    def lookup(self, keys, slot_ids=None):
        cdef vector[int64_t] all_keys = _int64s(keys)
        cdef vector[uint64_t] slots
        cdef vector[uint8_t] there
        if slot_ids is not None:
            slots = _uint64s(slot_ids)
        vectors = np.zeros((all_keys.size(), self._it.vec_size()), dtype=np.float32)
        cdef float* out = <float*><size_t>vectors.ctypes.data
        with nogil:
            there = self._it.lookup(all_keys, slots, out)
        return vectors, np.array(there, dtype=np.uint8).astype(bool)

    def nearest(self, query, size_t k, metric, but=None):
        cdef vector[float] values = np.asarray(query, np.float32)
        cdef CppSimilarity similarity = similarity_named(metric)
        cdef CppRowName own
        cdef optional[CppRowName] left_out
        cdef CppNeighbours found
        if but is not None:
            own.key, own.slot = but
            left_out = own
        with nogil:
            found = self._it.nearest(values, k, similarity, left_out)
        slots = np.array(found.slot_ids, np.uint64) if "slot" in self.parts() else None
        return np.array(found.keys, np.int64), slots, np.array(found.scores, np.float64)

    def mark(self):
        cdef uint32_t mark
        with nogil:
            mark = self._it.mark()
        return mark

    def knows_since(self, uint32_t mark):
        return bool(self._it.knows_since(mark))

    def knows_changes_since(self, uint32_t mark):
        return bool(self._it.knows_changes_since(mark))

    def gone(self, uint32_t since):
        cdef CppRowNames names
        with nogil:
            names = self._it.gone(since)
        slots = np.array(names.slot_ids, np.uint64) if self._it.has_slots() else None
        return np.array(names.keys, np.int64), slots

    def scores(self, RowOrder order not None):
        """See ``_core.pyi``."""
        cdef CppRowValues values
        n = order._it.size()
        found = np.zeros(n, np.uint64)
        values.vectors = NULL
        values.last_step = NULL
        values.scores = <uint64_t*><size_t>found.ctypes.data
        with nogil:
            self._it.read(order._it, 0, order._it.size(), values)
        return found

    def parts(self):
        d = self._it.vec_size()
        parts = {"key": ("int64", ())}
        if self._it.has_slots():
            parts["slot"] = ("uint64", ())
        parts["vector"] = ("float32", (d,))
        for i, width in enumerate(self._it.state_widths()):
            parts[f"state{i}"] = ("float32", (width,))
        if self._it.has_last_step():
            parts["last_step"] = ("int64", ())
        if self._it.keeps_scores():
            parts["timed_score" if self._it.keeps_times() else "score"] = ("uint64", ())
        return parts

    def vector_type(self):
        return _DTYPE_NAMES[<int>self._it.vector_type()]

    def row_processes(self, keys, slot_ids=None):
        cdef vector[int64_t] all_keys = _int64s(keys)
        cdef vector[uint64_t] slots
        cdef vector[uint32_t] found
        if slot_ids is not None:
            slots = _uint64s(slot_ids)
        with nogil:
            found = self._it.row_processes(all_keys, slots)
        return _uint32_array(found)

    def placement(self):
        return self._it.placement()

    def load(self, rows):
        cdef CppRowView view
        arrays = _row_arrays(rows)  # the view has no memory of its own
        _view_rows(arrays, &view)
        with nogil:
            self._it.load(view)

    def erase(self, keys, slot_ids=None):
        cdef vector[int64_t] all_keys = _int64s(keys)
        cdef vector[uint64_t] slots
        cdef size_t erased
        if slot_ids is not None:
            slots = _uint64s(slot_ids)
        with nogil:
            erased = self._it.erase(all_keys, slots)
        return erased

    def reset(self):
        with nogil:
            self._it.reset()

    def stats(self):
        cdef CppTableStats t
        with nogil:
            t = self._it.stats()
        return dict(rows=t.rows, max_rows=t.max_rows, index_slots=t.index_slots, bytes=t.bytes,
                    unique_plans=t.unique_plans, admitted=t.admitted, refused=t.refused,
                    evicted=t.evicted, erased=t.erased, host_bytes=t.host_bytes, hits=t.tiers.hits,
                    misses=t.tiers.misses, bytes_fetched=t.tiers.bytes_fetched,
                    bytes_written_back=t.tiers.bytes_written_back, host_hits=t.tiers.disk.hits,
                    host_misses=t.tiers.disk.misses, disk_rows=t.tiers.disk.rows,
                    disk_bytes=t.tiers.disk.bytes, disk_groups_read=t.tiers.disk.groups_read,
                    disk_groups_written=t.tiers.disk.groups_written,
                    disk_bytes_read=t.tiers.disk.bytes_read,
                    disk_bytes_written=t.tiers.disk.bytes_written,
                    segments_swept=t.tiers.disk.segments_swept,
                    rows_swept=t.tiers.disk.rows_swept)


cdef class SessionTable(TableAccess):
    """See ``_core.pyi``."""

    cdef Session _session  # keeps the table: it is a part of that

    def __cinit__(self, Session session not None, size_t index):
        self._it = &session._it.table(index)
        self._session = session
        self._turn = session._turn

    def view(self, size_t device):
        cdef CppTableViews views
        with nogil:
            views = (<CppSessionTable*>self._it).view(device)
        return {
            "keys": _view(views.keys),
            "slot_ids": None if views.slots.ref.shape.empty() else _view(views.slots),
            "vectors": _view(views.vectors),
            "states": [_view(state) for state in views.states],
        }
