# SPDX-License-Identifier: Apache-2.0
# The model's specs, the Session and the single network of the layer tests.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.map cimport map as cmap
from libcpp.memory cimport shared_ptr
from libcpp.optional cimport optional
from libcpp.pair cimport pair
from libcpp.string cimport string
from libcpp.vector cimport vector

from hugectr._decl.base cimport CppDeviceType, CppOptParams, CppTensorScalarType
from hugectr._decl.errors cimport translate_error
from hugectr._decl.interop cimport CppTensorView

cdef extern from "core/cpp/comm/process_group.hpp" namespace "hugectr" nogil:
    cdef cppclass CppProcessGroup "hugectr::IProcessGroup":
        pass

cdef extern from "core/cpp/layers/layer.hpp" namespace "hugectr" nogil:
    cdef cppclass CppAttributeValue "hugectr::AttributeValue":
        CppAttributeValue(cbool)
        CppAttributeValue(int64_t)
        CppAttributeValue(double)
        CppAttributeValue(const string&)
        CppAttributeValue(const vector[int64_t]&)
        CppAttributeValue(const vector[double]&)
    const cbool* get_bool "std::get_if<bool>"(const CppAttributeValue*)
    const int64_t* get_int "std::get_if<std::int64_t>"(const CppAttributeValue*)
    const double* get_double "std::get_if<double>"(const CppAttributeValue*)
    const string* get_string "std::get_if<std::string>"(const CppAttributeValue*)
    const vector[int64_t]* get_ints "std::get_if<std::vector<std::int64_t>>"(
        const CppAttributeValue*)
    const vector[double]* get_doubles "std::get_if<std::vector<double>>"(
        const CppAttributeValue*)
    cdef cppclass CppAttributes "hugectr::Attributes":
        void set(const string& name, CppAttributeValue value)
        const cmap[string, CppAttributeValue]& values()
    cdef cppclass CppDenseLayerSpec "hugectr::DenseLayerSpec":
        CppDenseLayerSpec()
        string type
        vector[string] bottoms, tops
        CppAttributes attributes
    cdef cppclass CppParameter "hugectr::Parameter":
        string name
        vector[size_t] shape

cdef extern from "core/cpp/data/csr_chunk.hpp" namespace "hugectr" nogil:
    cdef cppclass CppSparseInput "hugectr::SparseInput":
        string top_name
        vector[int] nnz_per_slot
        cbool is_fixed_length
        size_t slot_num

cdef extern from "core/cpp/data/memory_format.hpp" namespace "hugectr" nogil:
    cdef cppclass CppMemorySparse "hugectr::MemoryData::Sparse":
        vector[int64_t] keys
        vector[uint64_t] row_offsets
    cdef cppclass CppMemoryData "hugectr::MemoryData":
        size_t samples
        vector[float] label, dense
        vector[CppMemorySparse] sparse
    ctypedef const CppMemoryData ConstMemoryData
    ctypedef shared_ptr[ConstMemoryData] CppMemoryPtr "std::shared_ptr<const hugectr::MemoryData>"

cdef extern from "core/cpp/data/norm_format.hpp" namespace "hugectr" nogil:
    cdef enum class CppCheck "hugectr::Check":
        Sum
    const CppCheck CheckNone "hugectr::Check::None"
    cdef enum class CppOnBadData "hugectr::OnBadData":
        Error
        Skip

cdef extern from "core/cpp/model/loss_scaling_state.hpp" namespace "hugectr" nogil:
    cdef cppclass CppLossScalingState "hugectr::LossScalingState":
        float scale
        int64_t good_steps, skipped_steps

cdef extern from "core/cpp/data/read_position.hpp" namespace "hugectr" nogil:
    cdef cppclass CppReadPosition "hugectr::ReadPosition":
        uint64_t epoch, sample, file, record, byte

cdef extern from "core/cpp/data/block_order.hpp" namespace "hugectr" nogil:
    cdef cppclass CppBlockInfo "hugectr::BlockInfo":
        size_t file
        uint64_t rows, bytes
    cdef cppclass CppShuffleSpec "hugectr::ShuffleSpec":
        uint64_t seed, window
        cbool files, blocks

cdef extern from "core/cpp/data/raw_format.hpp" namespace "hugectr" nogil:
    cdef cppclass CppRawReading "hugectr::RawReading":
        uint64_t num_samples, keep_bytes
        cbool float_label_dense, direct
        vector[int64_t] slot_offsets
        size_t block_bytes
        CppOnBadData on_bad_data

cdef extern from "core/cpp/data/arrow_callbacks.hpp" namespace "hugectr" nogil:
    cdef cppclass CppArrowSchema "ArrowSchema":
        pass
    cdef cppclass CppArrowArray "ArrowArray":
        int64_t length
    cdef cppclass CppArrowSource "hugectr::ArrowSource":
        vector[string] files
        vector[CppBlockInfo] blocks
    cdef cppclass CppArrowMapping "hugectr::ArrowMapping":
        vector[string] labels, dense, slots
        vector[int64_t] slot_offsets
    cdef cppclass CppArrowDecoder "hugectr::ArrowDecoder":
        pass

cdef extern from "core/cpp/data/data_reader.hpp" namespace "hugectr" nogil:
    cdef cppclass CppReaderMetrics "hugectr::ReaderMetrics":
        uint64_t batches, bad_samples, rows_decoded, chunks, slots, acquired
        double parse_seconds, credit_seconds, ready_seconds, acquire_seconds, seconds
        double ready_depth, credit_depth, ahead_depth

cdef extern from "core/cpp/memory/general_buffer2.hpp" namespace "hugectr" nogil:
    cdef cppclass CppMemoryReportEntry "hugectr::MemoryReportEntry":
        string owner, name
        size_t bytes

cdef extern from "core/cpp/embedding/placement/embedding_type.hpp" namespace "hugectr" nogil:
    cdef enum class CppEmbeddingType "hugectr::EmbeddingType":
        DistributedSlotSparseEmbeddingHash
        LocalizedSlotSparseEmbeddingHash

    cdef enum class CppPlacementKind "hugectr::PlacementKind":
        pass

cdef extern from "core/cpp/embedding/placement/placement.hpp" namespace "hugectr" nogil:
    CppPlacementKind placement_named(const string&) except +translate_error
    vector[uint32_t] cpp_row_owners "hugectr::row_owners"(
        optional[CppPlacementKind], const vector[int64_t]&, const vector[uint64_t]&,
        size_t) except +translate_error

cdef extern from "core/cpp/embedding/embedding_params.hpp" namespace "hugectr" nogil:
    cdef enum class CppExchangeType "hugectr::ExchangeType":
        Auto
        Pooled
        Unique
    cdef enum class CppCombiner "hugectr::Combiner":
        Sum
        Mean

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
    cdef cppclass CppBufferBag "hugectr::BufferBag":
        size_t vec_size
        vector[int64_t] keys
        vector[uint64_t] slot_ids
        vector[float] vectors
        vector[vector[float]] states
        vector[int64_t] last_step
    cdef cppclass CppRowOrder "hugectr::RowOrder":
        vector[int64_t] keys
        vector[uint64_t] slot_ids
        size_t size()
    cdef cppclass CppRowValues "hugectr::RowValues":
        float* vectors
        vector[float*] states
        int64_t* last_step
    cdef cppclass CppTableStats "hugectr::TableStats":
        size_t rows, max_rows, index_slots, bytes, unique_plans

cdef extern from "core/cpp/model/learning_rate.hpp" namespace "hugectr" nogil:
    cdef cppclass CppLearningRateParams "hugectr::LearningRateParams":
        CppLearningRateParams()
        double base_lr, decay_power, end_lr
        int64_t warmup_steps, decay_start, decay_steps
    cdef cppclass CppLearningRateScheduler "hugectr::LearningRateScheduler":
        CppLearningRateScheduler(const CppLearningRateParams&) except +translate_error
        double get_next()
        double get_lr()
        void set_step(int64_t) except +translate_error
        int64_t step()
        void reset(const CppLearningRateParams&) except +translate_error

cdef extern from "core/cpp/device/device_map.hpp" namespace "hugectr" nogil:
    cdef enum class CppDeviceLayout "hugectr::DeviceLayout":
        LocalFirst
        NodeFirst

cdef extern from "core/cpp/device/resource_manager.hpp" namespace "hugectr" nogil:
    cdef cppclass CppResourceManager "hugectr::ResourceManager":
        uint64_t seed()

cdef extern from "core/cpp/data/make_source.hpp" namespace "hugectr" nogil:
    cdef enum class CppDataFormat "hugectr::DataFormat":
        pass
    const vector[string]& cpp_data_format_names "hugectr::data_format_names"()
    cdef cppclass CppReaderSpec "hugectr::ReaderSpec":
        CppDataFormat format
        string source, eval_source
        double max_bad_share
        CppCheck check
        CppOnBadData on_bad_data
        size_t num_workers, resident_batches
        CppMemoryPtr memory, eval_memory
        CppRawReading raw, eval_raw
        CppArrowDecoder arrow, eval_arrow
        CppArrowMapping columns
        CppShuffleSpec shuffle
        size_t decode_threads
        uint64_t read_ahead_bytes
        cbool replicated

cdef extern from "core/cpp/model/session.hpp" namespace "hugectr" nogil:
    cdef cppclass CppSolverSpec "hugectr::SolverSpec":
        string model_name
        uint64_t seed
        size_t batchsize, batchsize_eval, max_eval_batches
        vector[vector[int]] vvgpu
        CppDeviceType device
        CppDeviceLayout device_layout
        cbool repeat_dataset, drop_incomplete_batch
        CppLearningRateParams lr
        cbool i64_input_key, tf32, dynamic_loss_scale
        vector[string] metrics
        cbool use_algorithm_search
        cbool use_cuda_graph
        double loss_scale
        CppTensorScalarType compute_dtype
    cdef cppclass CppInputSpec "hugectr::InputSpec":
        string label_name, dense_name
        size_t label_dim, dense_dim
        vector[CppSparseInput] sparse
    cdef cppclass CppSparseEmbeddingSpec "hugectr::SparseEmbeddingSpec":
        CppSparseEmbeddingSpec()
        CppEmbeddingType type
        size_t workspace_size_per_gpu_in_mb, max_vocabulary_size_per_gpu, embedding_vec_size
        CppCombiner combiner
        CppExchangeType exchange
        string name, bottom
        vector[size_t] slot_size_array
        optional[CppOptParams] opt_params
    cdef cppclass CppModelSpec "hugectr::ModelSpec":
        CppInputSpec input
        vector[CppSparseEmbeddingSpec] embeddings
        vector[CppDenseLayerSpec] layers
        CppOptParams opt_params
    cdef cppclass CppOpTime "hugectr::OpTime":
        string stream, layer, op
        double begin, seconds
    cdef cppclass CppLayerSummary "hugectr::LayerSummary":
        string type
        vector[string] bottoms, tops
        vector[vector[size_t]] top_shapes
    cdef cppclass CppNonTrainableValues "hugectr::Session::NonTrainableValues":
        string layer
        vector[double] mean
        vector[float] var
    cdef cppclass CppTableViews "hugectr::TableViews":
        CppTensorView keys, slots, vectors
        vector[CppTensorView] states
    cdef cppclass CppSession "hugectr::Session":
        CppSession(const CppSolverSpec&, const CppReaderSpec&, const CppModelSpec&,
                   shared_ptr[CppProcessGroup]) except +translate_error
        void start_data_reading() except +translate_error
        cbool has_left()
        void leave(const string&)
        void stop_data_reading() except +translate_error
        void end(double)
        cbool train() except +translate_error
        cbool eval() except +translate_error
        float get_current_loss() except +translate_error
        void check_loss() except +translate_error
        vector[pair[string, double]] get_eval_metrics() except +translate_error
        void set_source(const string&) except +translate_error
        void set_eval_source(const string&) except +translate_error
        cbool train_data_at_end()
        CppLearningRateScheduler& learning_rate_scheduler()
        float learning_rate()
        void set_learning_rate(float)
        void set_trainable(const string&, cbool) except +translate_error
        vector[float] dense_weights() except +translate_error
        void set_dense_weights(const vector[float]&) except +translate_error
        vector[float] dense_optimizer_states() except +translate_error
        void set_dense_optimizer_states(const vector[float]&) except +translate_error
        vector[CppNonTrainableValues] non_trainables() except +translate_error
        void set_non_trainables(const vector[CppNonTrainableValues]&) except +translate_error
        size_t num_embeddings()
        CppBufferBag dump_embedding(size_t, cbool) except +translate_error
        void load_embedding(size_t, const CppRowView&) except +translate_error
        CppRowOrder embedding_order(size_t, uint32_t) except +translate_error
        void read_embedding(size_t, const CppRowOrder&, size_t, size_t,
                            const CppRowValues&) except +translate_error
        uint32_t mark_embedding(size_t) except +translate_error
        cbool embedding_knows_since(size_t, uint32_t) except +translate_error
        vector[size_t] embedding_state_widths(size_t) except +translate_error
        cbool embedding_has_last_step(size_t) except +translate_error
        size_t embedding_vec_size(size_t) except +translate_error
        cbool embedding_has_slots(size_t) except +translate_error
        string embedding_placement(size_t) except +translate_error
        vector[uint32_t] row_processes(size_t, const vector[int64_t]&,
                                       const vector[uint64_t]&) except +translate_error
        int64_t step()
        void reset_embedding(size_t) except +translate_error
        CppLossScalingState loss_scaling_state() except +translate_error
        void set_loss_scaling_state(const CppLossScalingState&) except +translate_error
        float loss_scale() except +translate_error
        int64_t skipped_steps() except +translate_error
        void set_step(int64_t)
        vector[float] check_out_tensor(const string&, cbool,
                                       vector[size_t]*) except +translate_error
        CppTensorView tensor_view(const string&, cbool, size_t) except +translate_error
        CppTensorView weight_view(const string&, size_t) except +translate_error
        CppTensorView state_view(const string&, size_t, size_t) except +translate_error
        vector[string] weight_names() except +translate_error
        CppTableViews table_view(size_t, size_t) except +translate_error
        void set_weight(const string&, const CppTensorView&) except +translate_error
        void wait_for_stream(void*) except +translate_error
        vector[CppLayerSummary] summary() except +translate_error
        const vector[CppDenseLayerSpec]& layers()
        vector[CppTableStats] table_stats() except +translate_error
        CppReaderMetrics reader_metrics(cbool) except +translate_error
        CppReadPosition data_position()
        void set_data_position(const CppReadPosition&) except +translate_error
        vector[pair[string, double]] stage_seconds() except +translate_error
        size_t captured_pieces()
        void set_profiling(cbool, cbool) except +translate_error
        vector[CppOpTime] take_op_times() except +translate_error
        vector[CppMemoryReportEntry] memory_report() except +translate_error
        CppResourceManager& resources()

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
        vector[float] get(const string&, vector[size_t]*) except +translate_error
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
