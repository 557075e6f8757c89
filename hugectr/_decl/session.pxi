# SPDX-License-Identifier: Apache-2.0
# The Session: every call that may wait releases the GIL: for a device, a lock, another process. The
# threads that find out that such a wait is in vain call Python too.


cdef class Session:
    """See ``_core.pyi``."""

    cdef CppSession* _it
    cdef readonly object _turn
    cdef object __weakref__

    def __cinit__(self, solver, reader, model, processes=None, Turn turn=None):
        self._it = NULL
        self._turn = turn or Turn("session")
        cdef CppSolverSpec s = _solver_spec(solver)
        cdef CppReaderSpec r = _reader_spec(reader)
        cdef CppModelSpec m = _model_spec(model)
        cdef shared_ptr[CppProcessGroup] group = _process_group(processes)
        with nogil:
            self._it = new CppSession(s, r, m, group)
        _end_with_program(self, processes is not None and processes.size > 1)

    def __dealloc__(self):
        # Without the GIL: the destructor joins threads, and one of them might be waiting for it.
        cdef CppSession* it = self._it
        with nogil:
            del it

    def stop_data_reading(self):
        with nogil:
            self._it.stop_data_reading()

    def start_data_reading(self):
        with nogil:
            self._it.start_data_reading()

    def leave(self, str reason):
        cdef string text = reason
        if (<Turn>self._turn).made_here():
            with nogil:
                self._it.leave(text)

    def has_left(self):
        return self._it.has_left()

    def train(self):
        cdef cbool trained
        with nogil:
            trained = self._it.train()
        return bool(trained)

    def eval(self):
        cdef cbool evaluated
        with nogil:
            evaluated = self._it.eval()
        return bool(evaluated)

    def get_current_loss(self):
        cdef float loss
        with nogil:
            loss = self._it.get_current_loss()
        return loss

    def check_loss(self):
        with nogil:
            self._it.check_loss()

    def get_eval_metrics(self):
        cdef vector[pair[string, double]] metrics
        with nogil:
            metrics = self._it.get_eval_metrics()
        return [(item.first, item.second) for item in metrics]

    def set_source(self, str source):
        cdef string name = _path_bytes(source)
        with nogil:
            self._it.set_source(name)

    def set_eval_source(self, str source):
        cdef string name = _path_bytes(source)
        with nogil:
            self._it.set_eval_source(name)

    def train_data_at_end(self):
        return bool(self._it.train_data_at_end())

    def get_next_lr(self):
        return self._it.learning_rate_scheduler().get_next()

    def set_learning_rate(self, float lr):
        self._it.set_learning_rate(lr)

    def reset_learning_rate_scheduler(self, base_lr, warmup_steps, decay_start, decay_steps,
                                      decay_power, end_lr):
        f = _Fields("learning rate", dict(
            lr=base_lr, warmup_steps=warmup_steps, decay_start=decay_start,
            decay_steps=decay_steps, decay_power=decay_power, end_lr=end_lr))
        self._it.learning_rate_scheduler().reset(_lr_params(f))

    def set_trainable(self, str embedding, trainable):
        self._it.set_trainable(embedding, <cbool>trainable)

    def dense_weights(self):
        cdef vector[float] values
        with nogil:
            values = self._it.dense_weights()
        return _float_array(values)

    def set_dense_weights(self, values):
        cdef vector[float] floats = _floats(values)
        with nogil:
            self._it.set_dense_weights(floats)

    def dense_optimizer_states(self):
        cdef vector[float] values
        with nogil:
            values = self._it.dense_optimizer_states()
        return _float_array(values)

    def set_dense_optimizer_states(self, values):
        cdef vector[float] floats = _floats(values)
        with nogil:
            self._it.set_dense_optimizer_states(floats)

    def non_trainables(self):
        cdef vector[CppNonTrainableValues] values
        with nogil:
            values = self._it.non_trainables()
        return [(v.layer, _double_array(v.mean), _float_array(v.var)) for v in values]

    def set_non_trainables(self, values):
        cdef vector[CppNonTrainableValues] all_values = _non_trainable_values(values)
        with nogil:
            self._it.set_non_trainables(all_values)

    def num_embeddings(self):
        return self._it.num_embeddings()

    def dump_embedding(self, size_t index, with_states=False):
        order = self.embedding_order(index)
        return self.read_embedding(index, order, 0, len(order), with_states)

    def embedding_order(self, size_t index, uint32_t since=0):
        order = RowOrder()
        with nogil:
            order._it = self._it.embedding_order(index, since)
        return order

    def read_embedding(self, size_t index, RowOrder order not None, size_t begin, size_t end,
                       with_states=True, out=None):
        # The core writes straight into the arrays: a table is not held twice.
        cdef CppRowValues values
        parts = self.embedding_parts(index)
        states = [s for part, (_, s) in parts.items() if with_states and part.startswith("state")]
        if begin > end or end > order._it.size():
            raise InvalidArgument(f"rows {begin} to {end} of an order of {len(order)}")
        n, shape = end - begin, parts["vector"][1]
        last_step = with_states and "last_step" in parts
        if out is None:
            out = {
                "keys": np.empty(n, dtype=np.int64),
                "slot_ids": np.empty(n, dtype=np.uint64) if "slot" in parts else None,
                "vectors": np.empty((n, *shape), dtype=np.float32),
                "states": [np.empty((n, *width), dtype=np.float32) for width in states],
                "last_step": np.empty(n, dtype=np.int64) if last_step else None,
            }
        if len(out["states"]) != len(states):
            raise InvalidArgument(f"rows have {len(states)} states, out has {len(out['states'])}")
        order.copy_keys(begin, end, _place("keys", out["keys"], n, (), np.int64))
        if "slot" in parts:
            order.copy_slot_ids(begin, end, _place("slot_ids", out["slot_ids"], n, (), np.uint64))
        values.vectors = <float*><size_t>_place("vectors", out["vectors"], n, shape, np.float32)
        values.last_step = NULL
        for array, width in zip(out["states"], states, strict=True):
            state = _place("states", array, n, width, np.float32)
            values.states.push_back(<float*><size_t>state)
        if last_step:
            steps = _place("last_step", out["last_step"], n, (), np.int64)
            values.last_step = <int64_t*><size_t>steps
        with nogil:
            self._it.read_embedding(index, order._it, begin, end, values)
        return out

    def mark_embedding(self, size_t index):
        cdef uint32_t mark
        with nogil:
            mark = self._it.mark_embedding(index)
        return mark

    def embedding_knows_since(self, size_t index, uint32_t mark):
        return bool(self._it.embedding_knows_since(index, mark))

    def embedding_parts(self, size_t index):
        d = self._it.embedding_vec_size(index)
        parts = {"key": ("int64", ())}
        if self._it.embedding_has_slots(index):
            parts["slot"] = ("uint64", ())
        parts["vector"] = ("float32", (d,))
        for i, width in enumerate(self._it.embedding_state_widths(index)):
            parts[f"state{i}"] = ("float32", (width,))
        if self._it.embedding_has_last_step(index):
            parts["last_step"] = ("int64", ())
        return parts

    def row_processes(self, size_t index, keys, slot_ids=None):
        cdef vector[int64_t] all_keys = _int64s(keys)
        cdef vector[uint64_t] slots
        cdef vector[uint32_t] found
        if slot_ids is not None:
            slots = _uint64s(slot_ids)
        with nogil:
            found = self._it.row_processes(index, all_keys, slots)
        return _uint32_array(found)

    def embedding_placement(self, size_t index):
        return self._it.embedding_placement(index)

    def load_embedding(self, size_t index, rows):
        cdef CppRowView view
        arrays = _row_arrays(rows)  # the view has no memory of its own
        _view_rows(arrays, &view)
        with nogil:
            self._it.load_embedding(index, view)

    def step(self):
        return self._it.step()

    def reset_embedding(self, size_t index):
        with nogil:
            self._it.reset_embedding(index)

    def loss_scaling_state(self):
        cdef CppLossScalingState s
        with nogil:
            s = self._it.loss_scaling_state()
        return dict(scale=s.scale, good_steps=s.good_steps, skipped_steps=s.skipped_steps)

    def set_loss_scaling_state(self, state):
        cdef CppLossScalingState s = _loss_scaling_state(state)
        with nogil:
            self._it.set_loss_scaling_state(s)

    def learning_rate_state(self):
        return dict(step=self._it.learning_rate_scheduler().step(),
                    lr=self._it.learning_rate())

    def set_learning_rate_state(self, state):
        f = _Fields("learning rate", state)
        cdef int64_t step = f.take("step", 0)
        cdef float lr = f.take("lr", 0.0)
        f.done()
        self._it.learning_rate_scheduler().set_step(step)
        self._it.set_learning_rate(lr)

    def loss_scale(self):
        cdef float scale
        with nogil:
            scale = self._it.loss_scale()
        return scale

    def skipped_steps(self):
        cdef int64_t steps
        with nogil:
            steps = self._it.skipped_steps()
        return steps

    def set_step(self, int64_t step):
        with nogil:
            self._it.set_step(step)

    def check_out_tensor(self, str name, train):
        cdef vector[size_t] shape
        cdef vector[float] values
        cdef string tensor = name
        cdef cbool training = train
        with nogil:
            values = self._it.check_out_tensor(tensor, training, &shape)
        return _float_array(values).reshape(shape)

    def tensor_view(self, str name, train, size_t device):
        return _view(self._it.tensor_view(name, <cbool>train, device))

    def weight_view(self, str name, size_t device):
        return _view(self._it.weight_view(name, device))

    def state_view(self, str name, size_t state, size_t device):
        return _view(self._it.state_view(name, state, device))

    def weight_names(self):
        return list(self._it.weight_names())

    def table_view(self, size_t index, size_t device):
        cdef CppTableViews views
        with nogil:
            views = self._it.table_view(index, device)
        return {
            "keys": _view(views.keys),
            "slot_ids": None if views.slots.ref.shape.empty() else _view(views.slots),
            "vectors": _view(views.vectors),
            "states": [_view(state) for state in views.states],
        }

    def set_weight(self, str name, TensorView values not None):
        cdef string weight = name
        with nogil:
            self._it.set_weight(weight, values._it)

    def wait_for_stream(self, uintptr_t stream):
        self._it.wait_for_stream(<void*>stream)

    def summary(self):
        return [(row.type, list(row.bottoms), list(row.tops),
                 [tuple(shape) for shape in row.top_shapes]) for row in self._it.summary()]

    def layers(self):
        cdef vector[CppDenseLayerSpec] specs = self._it.layers()
        return [dict(type=layer.type, bottoms=list(layer.bottoms), tops=list(layer.tops),
                     attributes=_attributes_dict(layer.attributes))
                for layer in specs]

    def table_stats(self):
        cdef vector[CppTableStats] stats
        with nogil:
            stats = self._it.table_stats()
        return [dict(rows=t.rows, max_rows=t.max_rows, index_slots=t.index_slots, bytes=t.bytes,
                     unique_plans=t.unique_plans)
                for t in stats]

    def reader_metrics(self, train):
        cdef CppReaderMetrics m
        cdef cbool training = train
        with nogil:
            m = self._it.reader_metrics(training)
        return _reader_metrics(m)

    def data_position(self):
        cdef CppReadPosition p = self._it.data_position()
        return dict(epoch=p.epoch, sample=p.sample, file=p.file, record=p.record, byte=p.byte)

    def set_data_position(self, position):
        cdef CppReadPosition p = _read_position(position)
        with nogil:
            self._it.set_data_position(p)

    def stage_seconds(self):
        cdef vector[pair[string, double]] stages
        with nogil:
            stages = self._it.stage_seconds()
        return dict((item.first, item.second) for item in stages)

    def captured_pieces(self):
        return self._it.captured_pieces()

    def set_profiling(self, on, alone=False):
        cdef cbool value = on, by_itself = alone
        with nogil:
            self._it.set_profiling(value, by_itself)

    def take_op_times(self):
        cdef vector[CppOpTime] times
        with nogil:
            times = self._it.take_op_times()
        return [(t.stream, t.layer, t.op, t.begin, t.seconds) for t in times]

    def memory_report(self):
        return [(e.owner, e.name, e.bytes) for e in self._it.memory_report()]

    def seed(self):
        return self._it.resources().seed()
