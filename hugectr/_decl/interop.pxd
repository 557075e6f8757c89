# SPDX-License-Identifier: Apache-2.0
# Memory shared with other libraries: views, DLPack, what keeps a Python object alive.
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr
from libcpp.vector cimport vector

from hugectr._decl.base cimport CppDeviceId
from hugectr._decl.errors cimport translate_error
from hugectr._decl.ops cimport CppTensorRef

cdef extern from *:
    """
    #include <memory>
    #include "hugectr/_decl/interpreter.hpp"

    // Owner of memory that a Python object holds. The last view may go in any thread, even one that
    // Python does not know, and after the interpreter.
    static std::shared_ptr<const void> hugectr_hold(PyObject* object) {
      Py_INCREF(object);
      return {static_cast<const void*>(object), [](const void* held) {
                hugectr_py::let_go(static_cast<PyObject*>(const_cast<void*>(held)));
              }};
    }

    // The owner, let go of without the GIL wherever that happens: with the last view its model may
    // go, whose threads might wait for the GIL.
    static std::shared_ptr<const void> hugectr_drop_without_gil(std::shared_ptr<const void> owner) {
      const void* const data = owner.get();
      return {data, [owner = std::move(owner)](const void*) mutable {
                if (!Py_IsInitialized() || !PyGILState_Check()) return owner.reset();
                PyThreadState* const thread = PyEval_SaveThread();
                owner.reset();
                PyEval_RestoreThread(thread);
              }};
    }
    """
    shared_ptr[const void] hugectr_hold(object)
    shared_ptr[const void] hugectr_drop_without_gil(shared_ptr[const void])

cdef extern from "core/cpp/device/tensor_view.hpp" namespace "hugectr" nogil:
    cdef cppclass CppTensorView "hugectr::TensorView":
        CppTensorView()
        CppTensorRef ref
        shared_ptr[const void] owner
        void* stream
    cdef cppclass CppNativeStream "hugectr::NativeStream":
        void* handle
    void wait_until_ready(const CppTensorView&) except +translate_error
    CppNativeStream native_stream_of(const CppTensorView&) except +translate_error
    void order_after_view(const CppTensorView&, uintptr_t) except +translate_error
    void order_before_view(const CppTensorView&, uintptr_t) except +translate_error
    CppTensorView copy_view(const CppTensorView&, CppDeviceId) except +translate_error

cdef extern from "core/cpp/memory/row_strides.hpp" namespace "hugectr" nogil:
    vector[int64_t] element_strides(const CppTensorRef&)
    size_t row_stride_of(const vector[size_t]&, const vector[int64_t]&,
                         const char*) except +translate_error

cdef extern from "core/cpp/memory/dlpack.hpp" namespace "hugectr::dlpack" nogil:
    cdef cppclass DLDevice:
        int32_t device_type, device_id
    cdef cppclass DLTensor:
        pass
    cdef cppclass DLPackVersion:
        uint32_t major, minor
    cdef cppclass DLManagedTensor:
        DLTensor dl_tensor
        void (*deleter)(DLManagedTensor*) noexcept
    cdef cppclass DLManagedTensorVersioned:
        DLPackVersion version
        void (*deleter)(DLManagedTensorVersioned*) noexcept
        DLTensor dl_tensor
    const int kDLCPU
    const uint32_t DLPACK_MAJOR "hugectr::dlpack::kMajorVersion"
    const uint64_t FLAG_IS_COPIED "hugectr::dlpack::kFlagIsCopied"
    DLDevice dlpack_device "hugectr::dlpack::device_of"(const CppTensorRef&)
    DLManagedTensor* export_tensor(const CppTensorRef&,
                                   shared_ptr[const void]) except +translate_error
    DLManagedTensorVersioned* export_versioned(const CppTensorRef&, shared_ptr[const void],
                                               uint64_t) except +translate_error
    CppTensorRef import_tensor(const DLTensor&) except +translate_error
    shared_ptr[const void] take(DLManagedTensor*) except +translate_error
    shared_ptr[const void] take_versioned "hugectr::dlpack::take"(
        DLManagedTensorVersioned*) except +translate_error
