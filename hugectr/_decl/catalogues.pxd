# SPDX-License-Identifier: Apache-2.0
# What the entries of the core's catalogues say of themselves.
from libcpp cimport bool as cbool
from libcpp.string cimport string
from libcpp.vector cimport vector

cdef extern from "core/cpp/base/catalogue.hpp" namespace "hugectr" nogil:
    cdef cppclass CppFieldDescription "hugectr::FieldDescription":
        string name, doc
        double initial, minimum, below
    cdef cppclass CppEntryDescription "hugectr::EntryDescription":
        string name, doc
        vector[CppFieldDescription] fields

cdef extern from "core/cpp/optimizers/catalogue.hpp" namespace "hugectr" nogil:
    cdef cppclass CppStateDescription "hugectr::StateDescription":
        string name
        cbool per_row
    cdef cppclass CppOptimizerDescription "hugectr::OptimizerDescription"(CppEntryDescription):
        vector[CppStateDescription] states
        cbool moves_untouched_rows, decays
    vector[CppOptimizerDescription] describe_optimizers() except +
    vector[CppFieldDescription] describe_adjustments() except +

cdef extern from "core/cpp/ops/elementwise/activations.hpp" namespace "hugectr" nogil:
    cdef cppclass CppActivationDescription "hugectr::ActivationDescription"(CppEntryDescription):
        string op
    vector[CppActivationDescription] describe_activations() except +

cdef extern from "core/cpp/losses/losses.hpp" namespace "hugectr" nogil:
    cdef cppclass CppLossDescription "hugectr::LossDescription"(CppEntryDescription):
        string op, prediction
        float least_label, most_label
    vector[CppLossDescription] describe_losses() except +

cdef extern from "core/cpp/metrics/metrics.hpp" namespace "hugectr" nogil:
    vector[CppEntryDescription] describe_metrics() except +
