# SPDX-License-Identifier: Apache-2.0
# Predictions.
from libc.stdint cimport int64_t
from libcpp.memory cimport shared_ptr
from libcpp.pair cimport pair
from libcpp.string cimport string
from libcpp.vector cimport vector

from hugectr._decl.errors cimport translate_error
from hugectr._decl.model cimport CppSession
from hugectr._decl.specs cimport CppMemoryPtr, CppMemoryView

cdef extern from "core/cpp/checkpoints/saved_model.hpp" namespace "hugectr" nogil:
    cdef cppclass CppSavedDescription "hugectr::SavedDescription":
        string path
        int64_t step
        size_t batchsize_eval
        string model
        string schema
        vector[size_t] table_rows
    CppSavedDescription cpp_read_description "hugectr::read_description"(
        const string&) except +translate_error
    void cpp_load_weights "hugectr::load_weights"(
        CppSession&, const string&) except +translate_error

cdef extern from "core/cpp/serving/predictor.hpp" namespace "hugectr" nogil:
    cdef cppclass CppPredictor "hugectr::Predictor":
        CppPredictor(CppSession&) except +translate_error
        vector[float] predict(const CppMemoryView&, const string&, size_t) except +translate_error
        vector[size_t] sample_shape(const string&) except +translate_error
        size_t executions()

cdef extern from "core/cpp/serving/live_predictor.hpp" namespace "hugectr" nogil:
    cdef cppclass CppLivePredictor "hugectr::LivePredictor":
        CppLivePredictor(CppSession&, size_t) except +translate_error
        vector[float] predict(CppMemoryPtr, const string&) except +translate_error
        vector[pair[string, double]] evaluate(CppMemoryPtr,
                                              const vector[string]&) except +translate_error
        vector[size_t] sample_shape(const string&) except +translate_error
