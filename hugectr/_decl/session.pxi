# SPDX-License-Identifier: Apache-2.0
# The Session: every call releases the GIL while C++ works.


cdef object _bag_dict(const CppBufferBag& bag):
    n, d = bag.keys.size(), bag.vec_size
    return {
        "keys": _int64_array(bag.keys),
        "slot_ids": _uint64_array(bag.slot_ids) if bag.slot_ids.size() else None,
        "vectors": _float_array(bag.vectors).reshape(n, d),
        "states": [_float_array(bag.states[i]).reshape(n, d) for i in range(bag.states.size())],
        "last_step": _int64_array(bag.last_step) if bag.last_step.size() else None,
    }


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


# Sessions whose readers call Python to exchange samples with other processes. Their threads must
# end before the interpreter does: a thread that then wants the GIL is killed where it stands.
_reading_together = weakref.WeakValueDictionary()
_session_numbers = itertools.count()


def _stop_reading_together():
    for number in sorted(_reading_together.keys()):
        session = _reading_together.get(number)
        if session is not None:
            session.stop_data_reading()


cdef class Session:
    """See ``_core.pyi``."""

    cdef CppSession* _it
    cdef object __weakref__

    def __cinit__(self):
        self._it = NULL

    def __init__(self, solver, reader, model, processes=None):
        cdef CppSolverSpec s = _solver_spec(solver)
        cdef CppReaderSpec r = _reader_spec(reader)
        cdef CppModelSpec m = _model_spec(model)
        cdef shared_ptr[CppProcessGroup] group = _process_group(processes)
        with nogil:
            self._it = new CppSession(s, r, m, group)
        if processes is not None and processes.size > 1:
            number = next(_session_numbers)
            _reading_together[number] = self
            if number == 0:
                # Now, not at import: it runs before the group says goodbye.
                atexit.register(_stop_reading_together)

    def __dealloc__(self):
        # Without the GIL: the destructor joins threads, and one of them might be waiting for it.
        cdef CppSession* it = self._it
        self._it = NULL
        with nogil:
            del it

    def stop_data_reading(self):
        with nogil:
            self._it.stop_data_reading()

    def start_data_reading(self):
        with nogil:
            self._it.start_data_reading()

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

    def get_eval_metrics(self):
        cdef vector[pair[string, double]] metrics
        with nogil:
            metrics = self._it.get_eval_metrics()
        return [(item.first, item.second) for item in metrics]

    def set_source(self, str source):
        cdef string name = source
        with nogil:
            self._it.set_source(name)

    def set_eval_source(self, str source):
        cdef string name = source
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
        return _float_array(self._it.dense_weights())

    def set_dense_weights(self, values):
        self._it.set_dense_weights(_floats(values))

    def dense_optimizer_states(self):
        return _float_array(self._it.dense_optimizer_states())

    def set_dense_optimizer_states(self, values):
        self._it.set_dense_optimizer_states(_floats(values))

    def non_trainables(self):
        return [(v.layer, _float_array(v.mean), _float_array(v.var))
                for v in self._it.non_trainables()]

    def set_non_trainables(self, values):
        cdef vector[CppNonTrainableValues] all_values
        cdef CppNonTrainableValues one
        for layer, mean, var in values:
            one.layer = layer
            one.mean = _floats(mean)
            one.var = _floats(var)
            all_values.push_back(one)
        self._it.set_non_trainables(all_values)

    def num_embeddings(self):
        return self._it.num_embeddings()

    def dump_embedding(self, size_t index, with_states=False):
        cdef CppBufferBag bag
        cdef cbool states = with_states
        with nogil:
            bag = self._it.dump_embedding(index, states)
        return _bag_dict(bag)

    def load_embedding(self, size_t index, rows):
        cdef CppBufferBag bag = _bag(rows)
        with nogil:
            self._it.load_embedding(index, bag)

    def step(self):
        return self._it.step()

    def reset_embedding(self, size_t index):
        with nogil:
            self._it.reset_embedding(index)

    def loss_scaling_state(self):
        cdef CppLossScalingState s = self._it.loss_scaling_state()
        return dict(scale=s.scale, good_steps=s.good_steps, skipped_steps=s.skipped_steps)

    def set_loss_scaling_state(self, state):
        cdef CppLossScalingState s
        f = _Fields("loss scaling", state)
        s.scale, s.good_steps = f.take("scale", 1.0), f.take("good_steps", 0)
        s.skipped_steps = f.take("skipped_steps", 0)
        f.done()
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
        return self._it.loss_scale()

    def skipped_steps(self):
        return self._it.skipped_steps()

    def set_step(self, int64_t step):
        self._it.set_step(step)

    def save_params_to_files(self, str prefix, int64_t iteration):
        cdef string name = prefix
        with nogil:
            self._it.save_params_to_files(name, iteration)

    def load_dense_weights(self, str file):
        self._it.load_dense_weights(file)

    def load_dense_optimizer_states(self, str file):
        self._it.load_dense_optimizer_states(file)

    def load_sparse_weights(self, size_t index, str path):
        cdef string name = path
        with nogil:
            self._it.load_sparse_weights(index, name)

    def load_sparse_optimizer_states(self, size_t index, str file):
        cdef string name = file
        with nogil:
            self._it.load_sparse_optimizer_states(index, name)

    def check_out_tensor(self, str name, train):
        cdef vector[size_t] shape
        cdef vector[float] values = self._it.check_out_tensor(name, <cbool>train, &shape)
        return _float_array(values).reshape(shape)

    def tensor_view(self, str name, train, size_t device):
        return _view(self._it.tensor_view(name, <cbool>train, device))

    def weight_view(self, str name, size_t device):
        return _view(self._it.weight_view(name, device))

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

    def set_weight(self, str name, TensorView values):
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
        return [dict(rows=t.rows, max_rows=t.max_rows, index_slots=t.index_slots, bytes=t.bytes)
                for t in self._it.table_stats()]

    def reader_metrics(self, train):
        cdef CppReaderMetrics m = self._it.reader_metrics(<cbool>train)
        return dict(batches=m.batches, bad_samples=m.bad_samples, parse_seconds=m.parse_seconds,
                    credit_seconds=m.credit_seconds, ready_seconds=m.ready_seconds,
                    acquire_seconds=m.acquire_seconds, rows_decoded=m.rows_decoded)

    def data_position(self):
        cdef CppReadPosition p = self._it.data_position()
        return dict(epoch=p.epoch, sample=p.sample, file=p.file, record=p.record, byte=p.byte)

    def set_data_position(self, position):
        cdef CppReadPosition p
        f = _Fields("position", position)
        p.epoch, p.sample = f.take("epoch", 0), f.take("sample", 0)
        p.file, p.record, p.byte = f.take("file", 0), f.take("record", 0), f.take("byte", 0)
        f.done()
        with nogil:
            self._it.set_data_position(p)

    def stage_seconds(self):
        return dict((item.first, item.second) for item in self._it.stage_seconds())

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
