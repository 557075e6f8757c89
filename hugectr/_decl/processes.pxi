# SPDX-License-Identifier: Apache-2.0
# A ProcessGroup of Python as the core sees it: a handful of functions that take the GIL.

from libcpp.memory cimport shared_ptr

cdef extern from "Python.h":
    object PyMemoryView_FromMemory(char* data, Py_ssize_t size, int flags)

cdef extern from * nogil:
    """
    #include <memory>
    #include <string>
    #include <vector>
    #include "core/cpp/base/error.hpp"
    #include "core/cpp/comm/process_group.hpp"
    #include "hugectr/_decl/interpreter.hpp"

    // Written in Cython, below; called with Python's lock. 0, or -1 with an error.
    static int hugectr_py_all_to_all(PyObject* group, const void* in, const size_t* send, void* out,
                                     const size_t* receive, size_t size, double limit);
    static int hugectr_py_duplicate(PyObject* group, const std::string& name, PyObject** result);
    static int hugectr_py_abort(PyObject* group, const std::string& reason);
    static PyObject* hugectr_py_failure_text(PyObject* error);

    namespace hugectr_py {
    template <class F>
    void visit(const F& f) {
      const std::string error = asked(f, hugectr_py_failure_text);
      if (!error.empty()) throw hugectr::CommError(error);
    }

    // Takes a reference of its own; call with the GIL or a reference that is passed on.
    inline hugectr::ProcessGroupCallbacks callbacks(PyObject* owned, size_t rank, size_t size,
                                                    double limit) {
      const std::shared_ptr<PyObject> group(owned, let_go);
      hugectr::ProcessGroupCallbacks c;
      c.rank = rank;
      c.size = size;
      c.limit_seconds = limit;
      c.all_to_all = [group](const void* in, const std::vector<size_t>& send, void* out,
                             const std::vector<size_t>& receive, double seconds) {
        visit([&] {
          return hugectr_py_all_to_all(group.get(), in, send.data(), out, receive.data(),
                                       send.size(), seconds);
        });
      };
      c.duplicate = [group, rank, size, limit](const std::string& name) {
        PyObject* result = nullptr;
        visit([&] { return hugectr_py_duplicate(group.get(), name, &result); });
        return callbacks(result, rank, size, limit);
      };
      c.abort = [group](const std::string& reason) {
        asked([&] { return hugectr_py_abort(group.get(), reason); }, hugectr_py_failure_text);
      };
      return c;
    }

    inline std::shared_ptr<hugectr::IProcessGroup> make(PyObject* owned, size_t rank, size_t size,
                                                        double limit) {
      return hugectr::make_process_group(callbacks(owned, rank, size, limit));
    }
    }  // namespace hugectr_py
    """
    shared_ptr[CppProcessGroup] cpp_make_process_group "hugectr_py::make"(
        PyObject* owned, size_t rank, size_t size, double limit) except +translate_error


cdef _interrupt_again(error):
    # An interrupt can not pass through the core; the main thread raises it as soon as it is out.
    if isinstance(error, KeyboardInterrupt):
        _thread.interrupt_main()


# What the core calls keeps no error for itself: it is taken from Python in C++ (interpreter.hpp).
cdef object _failure_text "hugectr_py_failure_text"(error):
    _interrupt_again(error)
    if isinstance(error, CommError):
        return str(error).encode(errors="backslashreplace") or b"unknown error"
    if isinstance(error, MemoryError) and not str(error):
        error = OutOfMemory(cpp_memory_shortage(b"an exchange between processes"))
    return f"{type(error).__name__}: {error}".encode(errors="backslashreplace")


cdef int _all_to_all "hugectr_py_all_to_all"(
        PyObject* group, const void* send, const size_t* send_bytes, void* receive,
        const size_t* receive_bytes, size_t size, double limit) except -1:
    cdef size_t i, sent = 0, received = 0
    out, into = [], []
    for i in range(size):
        out.append(send_bytes[i])
        into.append(receive_bytes[i])
        sent += send_bytes[i]
        received += receive_bytes[i]
    (<object>group).exchange_into(
        _memory(<char*>send, sent, 0x100), out, _memory(<char*>receive, received, 0x200), into,
        limit if limit > 0 else None)
    return 0


cdef object _memory(char* data, size_t size, int access):
    if size == 0:
        return memoryview(bytearray())
    return PyMemoryView_FromMemory(data, <Py_ssize_t>size, access)


cdef int _duplicate "hugectr_py_duplicate"(
        PyObject* group, const string& name, PyObject** result) except -1:
    other = (<object>group).duplicate(name)
    Py_XINCREF(<PyObject*>other)
    result[0] = <PyObject*>other
    return 0


cdef int _abort "hugectr_py_abort"(PyObject* group, const string& reason) except -1:
    (<object>group).abort(reason)
    return 0


cdef shared_ptr[CppProcessGroup] _process_group(group) except *:
    """What the core needs of a group; null for None and for a job of one process."""
    cdef shared_ptr[CppProcessGroup] none
    if group is None or group.size == 1:
        return none
    Py_XINCREF(<PyObject*>group)
    return cpp_make_process_group(<PyObject*>group, group.rank, group.size, group.failure.limit)
