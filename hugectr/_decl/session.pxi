# SPDX-License-Identifier: Apache-2.0
# The Session, what is of the whole. Every call that may wait releases the GIL: for a device, a
# lock, another process. The threads that find out that such a wait is in vain call Python too.


cdef object _summary(vector[CppLayerSummary] rows):
    return [(row.type, list(row.bottoms), list(row.tops),
             [tuple(<vector[size_t]>shape) for shape in row.top_shapes]) for row in rows]


cdef class Session:
    """See ``_core.pyi``."""

    cdef CppSession* _it
    cdef readonly object _turn
    cdef object __weakref__

    def __cinit__(self, solver, reader, model, processes=None, Turn turn=None):
        self._it = NULL
        self._turn = turn or Turn("session")
        cdef CppSolverSpec s = _solver_spec(solver)
        cdef optional[CppReaderSpec] r
        if reader is not None:
            r = _reader_spec(reader)
        cdef CppModelSpec m = _model_spec(model)
        cdef shared_ptr[CppProcessGroup] group = _process_group(processes)
        with nogil:
            self._it = new CppSession(s, r, m, group)
        _end_with_program(self, processes is not None and processes.size > 1)

    def __dealloc__(self):
        # Without the GIL: the destructor joins threads, and one of them might be waiting for it.
        cdef CppSession* it = self._it
        with nogil:
            delete_outside_of_groups(it)

    def table(self, size_t index):
        return SessionTable(self, index)

    def tables(self):
        return [SessionTable(self, index) for index in range(self._it.num_tables())]

    @property
    def network(self):
        return SessionNetwork(self)

    def has_reader(self):
        return bool(self._it.has_reader())

    @property
    def reader(self):
        return SessionReader(self)

    def trains(self):
        return bool(self._it.trains())

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

    def get_current_losses(self):
        cdef vector[pair[string, float]] losses
        with nogil:
            losses = self._it.get_current_losses()
        return [(item.first, item.second) for item in losses]

    def check_loss(self):
        with nogil:
            self._it.check_loss()

    def get_eval_metrics(self):
        cdef vector[pair[string, double]] metrics
        with nogil:
            metrics = self._it.get_eval_metrics()
        return [(item.first, item.second) for item in metrics]

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

    def set_trainable(self, str embedding, trainable):
        self._it.set_trainable(embedding, <cbool>trainable)

    def frozen_steps(self, str embedding):
        return self._it.trained_steps(embedding).left_out()

    def set_frozen_steps(self, str embedding, int64_t steps):
        self._it.trained_steps(embedding).set_left_out(steps)

    def step(self):
        return self._it.step()

    def set_step(self, int64_t step):
        with nogil:
            self._it.set_step(step)

    def load_weights(self, str path):
        cdef string place = path
        with nogil:
            cpp_load_weights(deref(self._it), place)

    def summary(self):
        return _summary(self._it.summary())

    def stage_seconds(self):
        cdef vector[pair[string, double]] stages
        with nogil:
            stages = self._it.stage_seconds()
        return dict((item.first, item.second) for item in stages)

    def set_profiling(self, on, alone=False):
        cdef cbool value = on, by_itself = alone
        with nogil:
            self._it.set_profiling(value, by_itself)

    def take_op_times(self):
        cdef vector[CppOpTime] times
        with nogil:
            times = self._it.take_op_times()
        return [(t.stream, t.layer, t.op, t.begin, t.seconds) for t in times]

    def memory_report(self, cbool by_tensor=True):
        return [(e.owner, e.name, e.bytes) for e in self._it.memory_report(by_tensor)]

    def seed(self):
        return self._it.resources().seed()

    def wait_for_stream(self, uintptr_t stream):
        self._it.wait_for_stream(<void*>stream)

    def leave(self, str reason):
        cdef string text = reason
        if (<Turn>self._turn).made_here():
            with nogil:
                self._it.leave(text)

    def has_left(self):
        return self._it.has_left()
