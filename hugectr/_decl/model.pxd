# SPDX-License-Identifier: Apache-2.0
# The Session with its parts, and the single network of the layer tests.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr
from libcpp.optional cimport optional
from libcpp.pair cimport pair
from libcpp.string cimport string
from libcpp.vector cimport vector

from hugectr._decl.base cimport CppDeviceType, CppShape, CppTensorScalarType
from hugectr._decl.errors cimport translate_error
from hugectr._decl.interop cimport CppTensorView
from hugectr._decl.specs cimport *

cdef extern from "core/cpp/comm/process_group.hpp" namespace "hugectr" nogil:
    cdef cppclass CppProcessGroup "hugectr::IProcessGroup":
        pass

cdef extern from "core/cpp/model/loss_scaling_state.hpp" namespace "hugectr" nogil:
    cdef cppclass CppLossScalingState "hugectr::LossScalingState":
        float scale
        int64_t good_steps, skipped_steps

cdef extern from "core/cpp/data/data_reader.hpp" namespace "hugectr" nogil:
    cdef cppclass CppReaderMetrics "hugectr::ReaderMetrics":
        uint64_t batches, bad_samples, rows_decoded, chunks, slots, acquired
        double parse_seconds, credit_seconds, ready_seconds, acquire_seconds, seconds
        double ready_depth, credit_depth, ahead_depth

cdef extern from "core/cpp/memory/general_buffer2.hpp" namespace "hugectr" nogil:
    cdef cppclass CppMemoryReportEntry "hugectr::MemoryReportEntry":
        string owner, name
        size_t bytes

cdef extern from "core/cpp/device/resource_manager.hpp" namespace "hugectr" nogil:
    cdef cppclass CppResourceManager "hugectr::ResourceManager":
        uint64_t seed()

cdef extern from "core/cpp/embedding/placement/placement.hpp" namespace "hugectr" nogil:
    CppPlacementKind placement_named(const string&) except +translate_error
    vector[uint32_t] cpp_row_owners "hugectr::row_owners"(
        optional[CppPlacementKind], const vector[int64_t]&, const vector[uint64_t]&,
        size_t) except +translate_error

cdef extern from "core/cpp/embedding/table/row_bag.hpp" namespace "hugectr" nogil:
    cdef cppclass CppRowView "hugectr::RowView":
        CppRowView()
        size_t size
        size_t vec_size
        const int64_t* keys
        const uint64_t* slot_ids
        const float* vectors
        vector[const float*] states
        vector[size_t] state_widths
        const int64_t* last_step
        const uint64_t* scores
    cdef cppclass CppRowOrder "hugectr::RowOrder":
        vector[int64_t] keys
        vector[uint64_t] slot_ids
        size_t size()
    cdef cppclass CppRowValues "hugectr::RowValues":
        float* vectors
        vector[float*] states
        int64_t* last_step
        uint64_t* scores
    cdef cppclass CppRowNames "hugectr::RowNames":
        vector[int64_t] keys
        vector[uint64_t] slot_ids
    cdef cppclass CppDiskTierCounts "hugectr::DiskTierCounts":
        uint64_t rows, bytes, hits, misses, groups_read, groups_written
        uint64_t bytes_read, bytes_written, segments_swept, rows_swept
    cdef cppclass CppTierCounts "hugectr::TierCounts":
        uint64_t hits, misses, bytes_fetched, bytes_written_back
        CppDiskTierCounts disk
    cdef cppclass CppTableStats "hugectr::TableStats":
        size_t rows, max_rows, index_slots, bytes, unique_plans, host_bytes
        size_t admitted, refused, evicted, erased
        CppTierCounts tiers

cdef extern from "core/cpp/embedding/table/nearest.hpp" namespace "hugectr" nogil:
    cdef cppclass CppSimilarity "hugectr::Similarity":
        pass
    cdef cppclass CppRowName "hugectr::RowName":
        int64_t key
        uint64_t slot
    cdef cppclass CppNeighbours "hugectr::Neighbours":
        vector[int64_t] keys
        vector[uint64_t] slot_ids
        vector[double] scores
    CppSimilarity similarity_named(const string&) except +translate_error

cdef extern from "core/cpp/embedding/table_access.hpp" namespace "hugectr" nogil:
    cdef cppclass CppTableAccess "hugectr::TableAccess":
        string name()
        size_t vec_size()
        CppTensorScalarType vector_type()
        string placement()
        cbool has_slots()
        vector[size_t] state_widths()
        cbool has_last_step()
        CppRowOrder order(uint32_t) except +translate_error
        void check_undamaged() except +translate_error
        void read(const CppRowOrder&, size_t, size_t, const CppRowValues&) except +translate_error
        vector[uint8_t] lookup(const vector[int64_t]&, const vector[uint64_t]&,
                               float*) except +translate_error
        CppNeighbours nearest(const vector[float]&, size_t, CppSimilarity,
                              const optional[CppRowName]&) except +translate_error
        uint32_t mark() except +translate_error
        cbool knows_since(uint32_t)
        cbool knows_changes_since(uint32_t)
        CppRowNames gone(uint32_t) except +translate_error
        cbool keeps_scores()
        cbool keeps_times()
        vector[uint32_t] row_processes(const vector[int64_t]&,
                                       const vector[uint64_t]&) except +translate_error
        void load(const CppRowView&) except +translate_error
        size_t erase(const vector[int64_t]&, const vector[uint64_t]&) except +translate_error
        void reset() except +translate_error
        CppTableStats stats() except +translate_error

cdef extern from "core/cpp/model/session_table.hpp" namespace "hugectr" nogil:
    cdef cppclass CppTableViews "hugectr::TableViews":
        CppTensorView keys, slots, vectors
        vector[CppTensorView] states
    cdef cppclass CppSessionTable "hugectr::SessionTable"(CppTableAccess):
        CppTableViews view(size_t) except +translate_error

cdef extern from "core/cpp/model/session_network.hpp" namespace "hugectr" nogil:
    cdef cppclass CppNonTrainableValues "hugectr::NonTrainableValues":
        string layer
        vector[double] mean
        vector[float] var
    cdef cppclass CppSessionNetwork "hugectr::SessionNetwork":
        const vector[CppDenseLayerSpec]& layers()
        vector[float] dense_weights() except +translate_error
        void set_dense_weights(const vector[float]&) except +translate_error
        vector[float] dense_optimizer_states() except +translate_error
        void set_dense_optimizer_states(const vector[float]&) except +translate_error
        void reset_dense_optimizer_states() except +translate_error
        vector[CppNonTrainableValues] non_trainables() except +translate_error
        void set_non_trainables(const vector[CppNonTrainableValues]&) except +translate_error
        CppLossScalingState loss_scaling_state() except +translate_error
        void set_loss_scaling_state(const CppLossScalingState&) except +translate_error
        vector[float] check_out_tensor(const string&, cbool,
                                       CppShape*) except +translate_error
        CppTensorView tensor_view(const string&, cbool, size_t) except +translate_error
        vector[string] weight_names() except +translate_error
        CppTensorView weight_view(const string&, size_t) except +translate_error
        CppTensorView state_view(const string&, size_t, size_t) except +translate_error
        void set_weight(const string&, const CppTensorView&) except +translate_error
        size_t captured_pieces()

cdef extern from "core/cpp/model/session_reader.hpp" namespace "hugectr" nogil:
    cdef cppclass CppSessionReader "hugectr::SessionReader":
        void start() except +translate_error
        void stop() except +translate_error
        void set_source(const string&) except +translate_error
        void set_eval_source(const string&) except +translate_error
        cbool at_end()
        cbool eval_at_end()
        size_t eval_samples()
        CppReadPosition position()
        void set_position(const CppReadPosition&) except +translate_error
        CppReaderMetrics metrics(cbool) except +translate_error

cdef extern from "core/cpp/device/op_timeline.hpp" namespace "hugectr" nogil:
    cdef cppclass CppOpTime "hugectr::OpTime":
        string stream, layer, op
        double begin, seconds

cdef extern from "core/cpp/model/layer_summary.hpp" namespace "hugectr" nogil:
    cdef cppclass CppLayerSummary "hugectr::LayerSummary":
        string type
        vector[string] bottoms, tops
        vector[CppShape] top_shapes
    vector[CppLayerSummary] cpp_layer_summary "hugectr::layer_summary"(
        const CppSolverSpec&, const CppModelSpec&) except +translate_error

cdef extern from "core/cpp/model/session.hpp" namespace "hugectr" nogil:
    cdef cppclass CppSession "hugectr::Session":
        CppSession(const CppSolverSpec&, const optional[CppReaderSpec]&, const CppModelSpec&,
                   shared_ptr[CppProcessGroup]) except +translate_error
        size_t num_tables()
        CppSessionTable& table(size_t) except +translate_error
        CppSessionNetwork& network()
        cbool has_reader()
        CppSessionReader& reader() except +translate_error
        cbool trains()
        cbool train() except +translate_error
        cbool eval() except +translate_error
        float get_current_loss() except +translate_error
        vector[pair[string, float]] get_current_losses() except +translate_error
        void check_loss() except +translate_error
        vector[pair[string, double]] get_eval_metrics() except +translate_error
        CppLearningRateScheduler& learning_rate_scheduler()
        float learning_rate()
        void set_learning_rate(float)
        void set_trainable(const string&, cbool) except +translate_error
        CppTrainedSteps& trained_steps(const string&) except +translate_error
        int64_t step()
        void set_step(int64_t)
        vector[CppLayerSummary] summary() except +translate_error
        vector[pair[string, double]] stage_seconds() except +translate_error
        void set_profiling(cbool, cbool) except +translate_error
        vector[CppOpTime] take_op_times() except +translate_error
        vector[CppMemoryReportEntry] memory_report(cbool) except +translate_error
        CppResourceManager& resources()
        void wait_for_stream(void*) except +translate_error
        void end(double)
        void leave(const string&)
        cbool has_left()

cdef extern from "core/cpp/layers/layer.hpp" namespace "hugectr" nogil:
    cdef cppclass CppParameter "hugectr::Parameter":
        string name
        vector[size_t] shape

cdef extern from "core/cpp/model/network_graph.hpp" namespace "hugectr" nogil:
    cdef cppclass CppNetworkInput "hugectr::NetworkInput":
        string name
        vector[size_t] shape
        cbool needs_gradient, may_be_16_bits
    cdef cppclass CppNetworkGraph "hugectr::NetworkGraph":
        const vector[CppParameter]& parameters()

cdef extern from "core/cpp/model/single_network.hpp" namespace "hugectr" nogil:
    cdef cppclass CppSingleNetwork "hugectr::SingleNetwork":
        CppSingleNetwork(const vector[CppNetworkInput]&, const vector[CppDenseLayerSpec]&, cbool,
                         uint64_t, CppDeviceType,
                         CppTensorScalarType) except +translate_error
        void set(const string&, const vector[float]&) except +translate_error
        vector[float] get(const string&, CppShape*) except +translate_error
        void forward(int64_t) except +translate_error
        void backward() except +translate_error
        const CppNetworkGraph& graph()
        vector[string] op_names()

cdef extern from "core/cpp/model/read_through.hpp" namespace "hugectr" nogil:
    cdef cppclass CppReadThrough "hugectr::ReadThrough":
        uint64_t samples, bytes
        double seconds
        CppReaderMetrics metrics
    CppReadThrough cpp_read_through "hugectr::read_through"(
        const CppSolverSpec&, const CppReaderSpec&, const CppInputSpec&,
        size_t) except +translate_error

cdef extern from "core/cpp/model/footprint.hpp" namespace "hugectr" nogil:
    cdef cppclass CppFootprintEntry "hugectr::FootprintEntry":
        size_t process, bytes
        string device, owner, part
    cdef cppclass CppTableFootprint "hugectr::TableFootprint":
        string name
        size_t rows, max_rows, row_bytes
    cdef cppclass CppKernelWork "hugectr::KernelWork":
        size_t bytes
        double flops, tile_flops
    cdef cppclass CppOpWork "hugectr::OpWork":
        string op, layer
        bint in_16_bits
        vector[CppKernelWork] kernels
    cdef cppclass CppFootprint "hugectr::Footprint":
        vector[CppFootprintEntry] entries
        vector[CppTableFootprint] tables
        vector[string] lacking
        vector[CppOpWork] work
    CppFootprint cpp_footprint "hugectr::footprint"(
        const CppSolverSpec&, const optional[CppReaderSpec]&, const CppModelSpec&,
        const vector[optional[size_t]]&) except +translate_error
