# SPDX-License-Identifier: Apache-2.0
# The end of the program: threads of the core stop before the interpreter does.

cdef extern from "core/cpp/base/call_gate.hpp" namespace "hugectr" nogil:
    cdef cppclass CppCallGate "hugectr::CallGate":
        cbool close(double)
        void forget()
    CppCallGate& cpp_interpreter_gate "hugectr::CallGate::to_interpreter"()

# All sessions of this process by number. A child of fork() has no thread of its parent's to stop.
_sessions = weakref.WeakValueDictionary()
_session_numbers = itertools.count()
_CALL_SECONDS = 30.0  # that a call under way in a daemon thread has to end
_VISIT_SECONDS = 60.0  # and a call of Python from the core, such as a read from a slow disk


def _end_sessions():
    cdef Session session
    cdef double seconds = _CALL_SECONDS
    for number in sorted(_sessions.keys()):
        session = _sessions.get(number)
        if session is not None:
            with nogil:
                session._it.end(seconds)


def _end_of_program():
    cdef double seconds
    try:
        _end_sessions()
    finally:
        # Whatever else there is: sessions in use, or made by functions that run after this one.
        seconds = _VISIT_SECONDS
        with nogil:
            cpp_interpreter_gate().close(seconds)


def _in_child():
    _sessions.clear()
    cpp_interpreter_gate().forget()


# Functions of atexit run in reverse order, after all threads but daemons have ended: what users
# register later still finds their model as it was, and a thread that trains comes to its end.
atexit.register(_end_of_program)
os.register_at_fork(after_in_child=_in_child)


def _end_with_program(session, together):
    _sessions[next(_session_numbers)] = session
    if together:
        # Now, not only at import: it runs before the group says goodbye. Twice is once.
        atexit.unregister(_end_sessions)
        atexit.register(_end_sessions)
