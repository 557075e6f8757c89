# SPDX-License-Identifier: Apache-2.0
# Errors, dtypes, devices, optimizer settings.
from libc.stdint cimport uint64_t
from libcpp cimport bool as cbool
from libcpp.map cimport map as cmap
from libcpp.string cimport string
from libcpp.vector cimport vector

from hugectr._decl.errors cimport translate_error

cdef extern from "core/cpp/base/device_id.hpp" namespace "hugectr" nogil:
    cdef enum class CppDeviceType "hugectr::DeviceType":
        Cpu
        Cuda
    cdef cppclass CppDeviceId "hugectr::DeviceId":
        CppDeviceType type
        int index

cdef extern from "core/cpp/base/shape.hpp" namespace "hugectr" nogil:
    # Converts to and from a vector by itself; declared where somebody points to one.
    cdef cppclass CppShape "hugectr::Shape":
        pass

cdef extern from "core/cpp/base/fork.hpp" namespace "hugectr" nogil:
    uint64_t fork_generation() noexcept

cdef extern from "core/cpp/base/thread_group.hpp" namespace "hugectr" nogil:
    void delete_outside_of_groups[T](T* it) noexcept
    string cpp_thread_shortage "hugectr::thread_shortage"(const string&, const string&) except +
    string cpp_memory_shortage "hugectr::memory_shortage"(const string&) except +

cdef extern from "core/cpp/device/work_counts.hpp" namespace "hugectr" nogil:
    cdef cppclass CppWorkCounts "hugectr::WorkCounts":
        uint64_t ops, collectives, launches
    CppWorkCounts cpp_work_counts "hugectr::work_counts"()

cdef extern from "core/cpp/base/scalar_type.hpp" namespace "hugectr" nogil:
    cdef enum class CppTensorScalarType "hugectr::TensorScalarType":
        Float32
        Float64
        Float16
        Int64
        UInt64
        Int32
        UInt32
        UInt8

cdef extern from "core/cpp/base/log.hpp" namespace "hugectr" nogil:
    cdef enum class CppLogLevel "hugectr::LogLevel":
        Debug
    void set_log_level(CppLogLevel level)
    void set_log_rank(int rank)

cdef extern from "core/cpp/base/op_table.hpp" namespace "hugectr" nogil:
    cdef cppclass CppOpTable "hugectr::OpTable":
        @staticmethod
        CppOpTable& instance()
        vector[string] ops(CppDeviceType device) except +

cdef extern from "core/cpp/optimizers/catalogue.hpp" namespace "hugectr" nogil:
    cdef cppclass CppOptParams "hugectr::OptParams":
        pass
    CppOptParams make_opt_params(const string& optimizer, const string& update_type,
                                 cbool atomic_update,
                                 const cmap[string, double]& fields) except +translate_error
