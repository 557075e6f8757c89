# SPDX-License-Identifier: Apache-2.0
# The one place where C++ exceptions become Python's.
cdef extern from *:
    """
    #include <cstring>
    #include <new>
    #include <stdexcept>
    #include <Python.h>
    #include "core/cpp/base/error.hpp"
    #include "core/cpp/model/non_finite_loss.hpp"

    // Raises the Python class of the same name in hugectr._core; called with the GIL. A text may
    // hold the name of a file, which need not be UTF-8.
    static void hugectr_raise(const char* name, const char* text) {
      PyObject* module = PyImport_ImportModule("hugectr._core");
      PyObject* type = module ? PyObject_GetAttrString(module, name) : nullptr;
      PyObject* value = PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::strlen(text)),
                                             "backslashreplace");
      if (type && value) PyErr_SetObject(type, value);
      Py_XDECREF(value);
      Py_XDECREF(type);
      Py_XDECREF(module);
    }

    static void translate_error() {
      // An interrupt that has come meanwhile, or that a function of ours was told of, goes first.
      if (PyErr_CheckSignals() != 0) return;
      try {
        throw;
      } catch (const hugectr::InvalidArgument& e) {
        hugectr_raise("InvalidArgument", e.what());
      } catch (const hugectr::OutOfMemory& e) {
        hugectr_raise("OutOfMemory", e.what());
      } catch (const hugectr::DeviceError& e) {
        hugectr_raise("DeviceError", e.what());
      } catch (const hugectr::DataError& e) {
        hugectr_raise("DataError", e.what());
      } catch (const hugectr::CommError& e) {
        hugectr_raise("CommError", e.what());
      } catch (const hugectr::NonFiniteLoss& e) {
        hugectr_raise("NonFiniteLoss", e.what());
      } catch (const std::bad_alloc&) {
        hugectr_raise("OutOfMemory", "out of host memory");
      } catch (const std::exception& e) {
        PyErr_SetString(PyExc_RuntimeError, e.what());
      }
    }
    """
    void translate_error()
