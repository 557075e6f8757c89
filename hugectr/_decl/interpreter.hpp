// SPDX-License-Identifier: Apache-2.0
// Python, asked by threads of the core. Part of the binding: included by its declarations only.
#pragma once
#include <Python.h>

#include <cstddef>
#include <string>

#include "core/cpp/base/call_gate.hpp"
#include "core/cpp/base/thread_group.hpp"
#include "core/cpp/base/thread_memory.hpp"

// Public since Python 3.4, though no part of the limited API.
extern "C" int PyGILState_Check(void);

namespace hugectr_py {

/// Python's lock, in any thread, while it lives, if it may be had: not when the program ends, nor
/// where there is no memory for what Python keeps of a thread. CPython 3.11 follows a null pointer
/// then and later ones abort, so that the memory is looked for before.
class InterpreterLock {
 public:
  InterpreterLock() {
    if (!visit_ || !Py_IsInitialized()) return;
    if (PyGILState_GetThisThreadState() != nullptr) {
      take();
      return;
    }
    const Alone alone;
    out_of_memory_ = !hugectr::thread_gets(kThreadBytes);
    if (!out_of_memory_) take();
  }
  ~InterpreterLock() {
    if (!held_) return;
    // A C++ exception of another library may have come through Python's own frames: pyarrow
    // declares few of its functions to throw, and std::bad_alloc does not ask. If that was where
    // the library had given the lock back, it is taken again: Python ends a process that gives back
    // what it has not. What the frames held is lost, and the state of the thread goes with this.
    if (!PyGILState_Check()) PyEval_RestoreThread(PyGILState_GetThisThreadState());
    PyGILState_Release(state_);
  }
  InterpreterLock(const InterpreterLock&) = delete;
  InterpreterLock& operator=(const InterpreterLock&) = delete;
  explicit operator bool() const { return held_; }

  /// Why there is none.
  std::string refusal() const {
    if (out_of_memory_) return hugectr::memory_shortage("a thread that calls Python");
    return hugectr::InterpreterVisit::kRefusal;
  }

 private:
  struct Alone {
    Alone() { hugectr::CallGate::to_interpreter().begin_alone(); }
    ~Alone() { hugectr::CallGate::to_interpreter().end_alone(); }
    Alone(const Alone&) = delete;
    Alone& operator=(const Alone&) = delete;
  };

  /// Of one thread's state: 0.4 to 4 kB in Python 3.11 to 3.14.
  static constexpr std::size_t kThreadBytes = std::size_t{64} << 10;

  void take() {
    state_ = PyGILState_Ensure();
    held_ = true;
  }

  const hugectr::InterpreterVisit visit_;  // ends last
  PyGILState_STATE state_{};
  bool held_ = false;
  bool out_of_memory_ = false;
};

/// A reference that it gives back; with the lock.
class Owned {
 public:
  explicit Owned(PyObject* object) : object_(object) {}
  ~Owned() { Py_XDECREF(object_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  PyObject* get() const { return object_; }

 private:
  PyObject* const object_;
};

/// Gives a reference back, from any thread, also one that Python does not know. What Python can not
/// be told stays in memory.
inline void let_go(PyObject* object) {
  const InterpreterLock lock;
  if (lock) Py_DECREF(object);
}

/// The text of the error that Python has noted, which is then no more. `text_of` gives it as bytes
/// that are not empty, or null with an error. Nothing here takes for granted that an error has a
/// traceback: there is none where there was no memory for one, and Cython's `return` in an `except`
/// does so (3.3.1).
inline std::string taken_error(PyObject* (*text_of)(PyObject*)) {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  const Owned owned_type(type), owned_value(value), owned_traceback(traceback);
  const Owned text(value == nullptr ? nullptr : text_of(value));
  const char* const bytes = text.get() == nullptr ? nullptr : PyBytes_AsString(text.get());
  if (bytes != nullptr) return bytes;
  PyErr_Clear();
  return hugectr::memory_shortage("Python, for the text of an error");
}

/// Calls `f` with Python's lock; the text of the error with which it returned -1, or nothing.
template <class F>
std::string asked(const F& f, PyObject* (*text_of)(PyObject*)) {
  const InterpreterLock lock;
  if (!lock) return lock.refusal();
  return f() == 0 ? std::string() : taken_error(text_of);
}

}  // namespace hugectr_py
