# SPDX-License-Identifier: Apache-2.0
# Tensors seen from outside and ops run by name.
from libc.stdint cimport int64_t
from libcpp cimport bool as cbool
from libcpp.map cimport map as cmap
from libcpp.string cimport string
from libcpp.vector cimport vector

from hugectr._decl.base cimport CppDeviceId, CppDeviceType, CppTensorScalarType
from hugectr._decl.errors cimport translate_error

cdef extern from "core/cpp/memory/tensor_ref.hpp" namespace "hugectr" nogil:
    cdef cppclass CppTensorRef "hugectr::TensorRef":
        void* data
        CppTensorScalarType dtype
        CppDeviceId device
        vector[size_t] shape
        size_t row_stride
        size_t row_size()
        size_t size()
        size_t size_in_bytes()
        cbool contiguous()

cdef extern from "core/cpp/device/thread_pool.hpp" namespace "hugectr" nogil:
    cdef cppclass CppThreadPool "hugectr::ThreadPool":
        CppThreadPool(size_t threads) except +translate_error
        size_t size()

cdef extern from "core/cpp/device/op.hpp" namespace "hugectr" nogil:
    cdef cppclass CppAnyOp "hugectr::AnyOp":
        pass

cdef extern from "core/cpp/device/op_on_host_tensors.hpp" namespace "hugectr" nogil:
    void run_on_host_tensors(const CppAnyOp&, CppDeviceId, CppThreadPool&) except +translate_error

cdef extern from "core/cpp/device/op_by_name.hpp" namespace "hugectr" nogil:
    cdef cppclass CppOpAttribute "hugectr::OpAttribute":
        CppOpAttribute()
        CppOpAttribute(cbool)
        CppOpAttribute(int64_t)
        CppOpAttribute(double)
        CppOpAttribute(const vector[int64_t]&)
        CppOpAttribute(const vector[double]&)
    cdef cppclass CppOpByName "hugectr::OpByName":
        CppOpByName(const string& name) except +translate_error
        void set_tensor(const string&, CppTensorRef) except +translate_error
        void set_tensors(const string&, vector[CppTensorRef]) except +translate_error
        void set_attribute(const string&, const CppOpAttribute&) except +translate_error
        cmap[string, string] fields() except +translate_error
        CppAnyOp take() except +translate_error

cdef extern from "core/cpp/device/held_memory.hpp" namespace "hugectr" nogil:
    void cpp_hold_memory "hugectr::hold_memory"(
        CppDeviceId device, cbool on_host, size_t bytes) except +translate_error

cdef extern from "core/cpp/device/device_backend.hpp" namespace "hugectr" nogil:
    cdef cppclass CppDeviceBackend "hugectr::DeviceBackend":
        int device_count()
        string device_name(int index) except +translate_error
        size_t memory_bytes(int index) except +translate_error
        cmap[string, string] libraries() except +translate_error
        CppDeviceId device_of(const void* data) except +translate_error

        @staticmethod
        CppDeviceBackend& get(CppDeviceType) except +translate_error

        @staticmethod
        string why_not(CppDeviceType)
