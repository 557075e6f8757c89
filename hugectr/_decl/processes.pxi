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
    #include "core/cpp/base/call_gate.hpp"
    #include "core/cpp/base/error.hpp"
    #include "core/cpp/comm/process_group.hpp"

    // Written in Cython, below. Each returns the text of an error, or nothing.
    static std::string hugectr_py_all_to_all(PyObject* group, const void* in, const size_t* send,
                                             void* out, const size_t* receive, size_t size,
                                             double limit);
    static std::string hugectr_py_duplicate(PyObject* group, const std::string& name,
                                            PyObject** result);
    static std::string hugectr_py_abort(PyObject* group, const std::string& reason);

    namespace hugectr_py {
    inline void give_back(PyObject* group) {
      const hugectr::InterpreterVisit visit;
      if (!visit || !Py_IsInitialized()) return;
      const PyGILState_STATE state = PyGILState_Ensure();
      Py_DECREF(group);
      PyGILState_Release(state);
    }

    inline void check(const std::string& error) {
      if (!error.empty()) throw hugectr::CommError(error);
    }

    // f asks for the GIL and returns the text of an error, or nothing.
    template <class F>
    void visit(const F& f) {
      const hugectr::InterpreterVisit visit;
      check(visit ? f() : std::string(hugectr::InterpreterVisit::kRefusal));
    }

    // Takes a reference of its own; call with the GIL or a reference that is passed on.
    inline hugectr::ProcessGroupCallbacks callbacks(PyObject* owned, size_t rank, size_t size,
                                                    double limit) {
      const std::shared_ptr<PyObject> group(owned, give_back);
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
        const hugectr::InterpreterVisit visit;
        if (visit) hugectr_py_abort(group.get(), reason);
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


cdef string _failure_text(error) noexcept:
    _interrupt_again(error)
    text = str(error) if isinstance(error, CommError) else f"{type(error).__name__}: {error}"
    return <string>(text.encode() or b"unknown error")


cdef string _all_to_all "hugectr_py_all_to_all"(
        PyObject* group, const void* send, const size_t* send_bytes, void* receive,
        const size_t* receive_bytes, size_t size, double limit) noexcept with gil:
    cdef size_t i, sent = 0, received = 0
    try:
        out, into = [], []
        for i in range(size):
            out.append(send_bytes[i])
            into.append(receive_bytes[i])
            sent += send_bytes[i]
            received += receive_bytes[i]
        (<object>group).exchange_into(
            _memory(<char*>send, sent, 0x100), out, _memory(<char*>receive, received, 0x200), into,
            limit if limit > 0 else None)
    except BaseException as error:
        return _failure_text(error)
    return string()


cdef object _memory(char* data, size_t size, int access):
    if size == 0:
        return memoryview(bytearray())
    return PyMemoryView_FromMemory(data, <Py_ssize_t>size, access)


cdef string _duplicate "hugectr_py_duplicate"(
        PyObject* group, const string& name, PyObject** result) noexcept with gil:
    try:
        text = name
        other = (<object>group).duplicate(text)
    except BaseException as error:
        return _failure_text(error)
    Py_XINCREF(<PyObject*>other)
    result[0] = <PyObject*>other
    return string()


cdef string _abort "hugectr_py_abort"(
        PyObject* group, const string& reason) noexcept with gil:
    try:
        text = reason
        (<object>group).abort(text)
    except BaseException as error:
        return _failure_text(error)
    return string()


cdef shared_ptr[CppProcessGroup] _process_group(group) except *:
    """What the core needs of a group; null for None and for a job of one process."""
    cdef shared_ptr[CppProcessGroup] none
    if group is None or group.size == 1:
        return none
    Py_XINCREF(<PyObject*>group)
    return cpp_make_process_group(<PyObject*>group, group.rank, group.size, group.failure.limit)
