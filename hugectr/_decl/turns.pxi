# SPDX-License-Identifier: Apache-2.0
# Who may call an object when: one thread at a time, and none in a forked child.


def thread_shortage(str what, str cause):
    return cpp_thread_shortage(what, cause)


cdef class Turn:
    """See ``_core.pyi``."""

    cdef str _what
    cdef int _process
    cdef uint64_t _generation
    cdef unsigned long _owner  # the thread that has the turn (0: none), and how often
    cdef size_t _depth
    cdef object _waiting  # (gate, thread) of those that wait, in the order of their coming

    def __cinit__(self, str what not None):
        self._what = what
        self._process = os.getpid()
        self._generation = fork_generation()
        self._owner = 0
        self._depth = 0
        self._waiting = collections.deque()

    def made_here(self):
        return self._generation == fork_generation()

    def check(self):
        if self._generation != fork_generation():
            raise InvalidArgument(
                f"this {self._what} belongs to process {self._process}, from which this one "
                f"({os.getpid()}) was forked: its threads are there, and it can not be used here. "
                f"Make a new {self._what} in this process, or start processes that import anew: "
                "multiprocessing.get_context('spawn')")

    cdef bint _take_at_once(self) except -1:
        """The turn, if nobody else has it; whether it was had."""
        if self._generation != fork_generation():
            self.check()
        cdef unsigned long me = PyThread_get_thread_ident()
        if self._owner == me:
            self._depth += 1
            return True
        if self._owner != 0:
            return False
        self._owner, self._depth = me, 1
        return True

    def take(self, double seconds=-1.0):
        """The turn, within so many seconds (negative: however long); whether it was had."""
        # Under the GIL all of this is one step but the wait for the gate.
        if self._take_at_once():
            return True
        me = PyThread_get_thread_ident()
        gate = _thread.allocate_lock()
        gate.acquire()
        entry = (gate, me)
        self._waiting.append(entry)
        try:
            had = gate.acquire(True, seconds) if seconds >= 0 else gate.acquire()
        except BaseException:  # an interrupt
            if entry in self._waiting:
                self._waiting.remove(entry)
            else:
                self.give()  # it has come meanwhile
            raise
        if not had and entry in self._waiting:
            self._waiting.remove(entry)
            return False
        return True

    def give(self):
        self._depth -= 1
        if self._depth > 0:
            return
        # Handed over, not let go: else a thread that trains would take it again at once, and the
        # others would wait for the end of the training.
        if self._waiting:
            gate, self._owner = self._waiting.popleft()
            self._depth = 1
            gate.release()
        else:
            self._owner = 0

    def __enter__(self):
        self.take()
        return self

    def __exit__(self, *_):
        self.give()


def unserialised(function):
    """Marks a method that takes turns itself or may run beside all others."""
    function.unserialised = True
    return function


def serialised(cls, but=()):
    """Has every public method of a class take the turn of its object, ``self._turn``, and refuses
    copies."""
    for name, method in list(vars(cls).items()):
        is_method = callable(method) and not isinstance(method, (type, classmethod, staticmethod))
        if name.startswith("_") or not is_method or name in but:
            continue
        if not getattr(method, "unserialised", False):
            setattr(cls, name, _in_turn(method))
    cls.__reduce__ = _not_copied
    return cls


def _not_copied(self):
    raise TypeError(
        f"a {type(self).__name__} can not be pickled or copied: it has threads, devices and files. "
        "Save it with Model.save(), and load that with resume() into a model made anew; "
        "graph_to_json() and construct_from_json() do the same for the graph alone")


def _in_turn(method):
    def call(self, *args, **kwargs):
        turn = getattr(self, "_turn", None)
        if turn is None:
            raise InvalidArgument(
                f"this {type(self).__name__} was not made whole: its __init__ did not run")
        # Compiled code: nothing between these two looks for an interrupt, as Python's own would.
        if not (type(turn) is Turn and (<Turn>turn)._take_at_once()):
            turn.take()
        try:
            return method(self, *args, **kwargs)
        except MemoryError as error:
            if str(error) not in ("", "out of host memory"):
                raise
            # Of Python, NumPy or another library, or the core's bad_alloc: it names nothing.
            name = f"{type(self).__name__}.{method.__name__}"
            raise OutOfMemory(cpp_memory_shortage(name)) from error
        finally:
            turn.give()

    return functools.wraps(method)(call)
