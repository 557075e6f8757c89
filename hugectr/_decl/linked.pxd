# SPDX-License-Identifier: Apache-2.0
from libc.stdint cimport uint32_t, uint64_t
from libcpp.string cimport string
from libcpp.vector cimport vector

from hugectr._decl.errors cimport translate_error
from hugectr._decl.model cimport CppRowOrder, CppTableAccess

cdef extern from "core/cpp/embedding/table/linked_rows.hpp" namespace "hugectr" nogil:
    cdef cppclass CppSharedSegment "hugectr::SharedSegment":
        string path
        uint64_t bytes
        uint32_t head
        vector[uint32_t] sums
    cdef cppclass CppSegmentHold "std::shared_ptr<hugectr::SegmentHold>":
        pass
    cdef cppclass CppLinkedRows "hugectr::LinkedRows":
        CppRowOrder order
        vector[uint64_t] places
        vector[CppSegmentHold] segments
        size_t row_bytes
        CppSharedSegment segment(size_t) except +translate_error
        void sync(size_t) except +translate_error
        void verify(size_t, bint) except +translate_error
    cdef cppclass CppStoredSplit "hugectr::StoredSplit":
        CppRowOrder rest
        vector[CppLinkedRows] linked

cdef extern from "core/cpp/embedding/storage/linked_segments.hpp" namespace "hugectr" nogil:
    cdef cppclass CppLinkedSegment "hugectr::LinkedSegment":
        string path
        uint64_t bytes
        uint32_t head
    cdef cppclass CppLinkedSegments "hugectr::LinkedSegments":
        CppLinkedSegments(size_t, vector[CppLinkedSegment]) except +translate_error
        size_t row_bytes()

cdef extern from *:
    """
    static void hugectr_read_linked(const hugectr::LinkedSegments& segments,
                                    const std::uint64_t* places, std::size_t n, void* rows) {
      segments.read({places, n}, static_cast<std::byte*>(rows));
    }
    static hugectr::StoredSplit hugectr_stored(hugectr::TableAccess& table,
                                               const hugectr::RowOrder& order) {
      return table.stored(order);
    }
    """
    CppStoredSplit cpp_stored "hugectr_stored"(
        CppTableAccess&, const CppRowOrder&) except +translate_error nogil
    void cpp_read_linked "hugectr_read_linked"(
        const CppLinkedSegments&, const uint64_t*, size_t, void*) except +translate_error nogil
