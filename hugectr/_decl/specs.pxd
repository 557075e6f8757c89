# SPDX-License-Identifier: Apache-2.0
# What users write, as the core takes it: solver, reader, model.
from libc.stdint cimport int64_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.map cimport map as cmap
from libcpp.memory cimport shared_ptr
from libcpp.optional cimport optional
from libcpp.string cimport string
from libcpp.vector cimport vector

from hugectr._decl.base cimport CppDeviceType, CppOptParams, CppTensorScalarType
from hugectr._decl.errors cimport translate_error

cdef extern from "core/cpp/optimizers/trained_steps.hpp" namespace "hugectr" nogil:
    cdef cppclass CppTrainedSteps "hugectr::TrainedSteps":
        int64_t left_out()
        void set_left_out(int64_t) except +translate_error

cdef extern from "core/cpp/layers/layer_spec.hpp" namespace "hugectr" nogil:
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

cdef extern from "core/cpp/data/csr_chunk.hpp" namespace "hugectr" nogil:
    cdef cppclass CppSparseInput "hugectr::SparseInput":
        string top_name
        vector[int] nnz_per_slot
        cbool is_fixed_length
        size_t slot_num

cdef extern from "<span>" nogil:
    cdef cppclass CppFloatSpan "std::span<const float>":
        CppFloatSpan()
        CppFloatSpan(const float*, size_t)
    cdef cppclass CppInt64Span "std::span<const std::int64_t>":
        CppInt64Span()
        CppInt64Span(const int64_t*, size_t)
    cdef cppclass CppUint64Span "std::span<const std::uint64_t>":
        CppUint64Span()
        CppUint64Span(const uint64_t*, size_t)

cdef extern from "core/cpp/data/memory_format.hpp" namespace "hugectr" nogil:
    cdef cppclass CppMemorySparse "hugectr::MemoryData::Sparse":
        vector[int64_t] keys
        vector[uint64_t] row_offsets
    cdef cppclass CppMemoryData "hugectr::MemoryData":
        size_t samples
        vector[float] label, dense, weight
        vector[CppMemorySparse] sparse
    cdef cppclass CppMemoryViewSparse "hugectr::MemoryView::Sparse":
        CppInt64Span keys
        CppUint64Span row_offsets
    cdef cppclass CppMemoryView "hugectr::MemoryView":
        size_t samples
        CppFloatSpan dense
        vector[CppMemoryViewSparse] sparse
    ctypedef const CppMemoryData ConstMemoryData
    ctypedef shared_ptr[ConstMemoryData] CppMemoryPtr "std::shared_ptr<const hugectr::MemoryData>"

cdef extern from "core/cpp/data/norm_format.hpp" namespace "hugectr" nogil:
    cdef enum class CppCheck "hugectr::Check":
        Sum
    const CppCheck CheckNone "hugectr::Check::None"
    cdef enum class CppOnBadData "hugectr::OnBadData":
        Error
        Skip

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
    cdef enum class CppRawKeys "hugectr::RawKeys":
        BySize
        All
    cdef cppclass CppRawNumbers "hugectr::RawNumbers":
        cbool float_label, float_dense
    cdef cppclass CppRawReading "hugectr::RawReading":
        uint64_t num_samples, keep_bytes
        CppRawNumbers numbers
        CppRawKeys keys
        cbool direct
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
        vector[string] labels, dense, slots, sequences
        vector[int64_t] slot_offsets
    cdef cppclass CppArrowDecoder "hugectr::ArrowDecoder":
        pass

cdef extern from "core/cpp/embedding/placement/embedding_type.hpp" namespace "hugectr" nogil:
    cdef enum class CppEmbeddingType "hugectr::EmbeddingType":
        DistributedSlotSparseEmbeddingHash
        LocalizedSlotSparseEmbeddingHash

    cdef enum class CppPlacementKind "hugectr::PlacementKind":
        pass

cdef extern from "core/cpp/embedding/embedding_params.hpp" namespace "hugectr" nogil:
    cdef enum class CppWireType "hugectr::WireType":
        Own
        Float32
        BFloat16
        Float16
        Float8
    cdef enum class CppExchangeType "hugectr::ExchangeType":
        Auto
        Pooled
        Unique
    cdef enum class CppInitialKind "hugectr::InitialVectors::Kind":
        Uniform
        Sinusoidal
    cdef cppclass CppTableDisk "hugectr::TableDisk":
        string folder
        size_t bytes
    cdef cppclass CppTableMemory "hugectr::TableMemory":
        optional[size_t] device, host
        optional[CppTableDisk] disk
    cdef cppclass CppInitialVectors "hugectr::InitialVectors":
        CppInitialKind kind
        double bound
    cdef enum class CppCombiner "hugectr::Combiner":
        Sum
        Mean
        Concat

cdef extern from "core/cpp/embedding/table/row_life.hpp" namespace "hugectr" nogil:
    cdef enum class CppEviction "hugectr::Eviction":
        Lru
        Lfu
        Ttl
    const CppEviction EvictionNone "hugectr::Eviction::None"
    cdef cppclass CppRowLife "hugectr::RowLife":
        uint64_t max_rows, ttl, evict_every, admit_after
        CppEviction evict
        double decay
        string ttl_column

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

cdef extern from "core/cpp/model/spec.hpp" namespace "hugectr" nogil:
    cdef cppclass CppSolverSpec "hugectr::SolverSpec":
        string model_name
        uint64_t seed
        size_t batchsize, batchsize_eval, max_eval_batches
        vector[vector[int]] vvgpu
        CppDeviceType device
        CppDeviceLayout device_layout
        cbool repeat_dataset, drop_incomplete_batch
        CppLearningRateParams lr
        cbool i64_input_key, tf32, dynamic_loss_scale, fp8
        vector[string] metrics
        cbool use_algorithm_search
        cbool use_cuda_graph
        size_t micro_batches
        double loss_scale
        CppTensorScalarType compute_dtype
    cdef cppclass CppLabelInput "hugectr::LabelInput":
        string name
        size_t dim
    cdef cppclass CppInputSpec "hugectr::InputSpec":
        string label_name, dense_name, group_name
        size_t label_dim, dense_dim
        vector[CppLabelInput] labels
        vector[CppSparseInput] sparse
    cdef cppclass CppSparseEmbeddingSpec "hugectr::SparseEmbeddingSpec":
        CppSparseEmbeddingSpec()
        CppEmbeddingType type
        size_t workspace_size_per_gpu_in_mb, max_vocabulary_size_per_gpu, embedding_vec_size
        optional[CppPlacementKind] placement
        size_t placement_device
        vector[int64_t] frequent
        CppCombiner combiner
        CppExchangeType exchange
        CppWireType wire
        string name, top
        vector[string] bottoms
        vector[size_t] slot_size_array
        CppTensorScalarType vector_type
        cbool direct
        CppInitialVectors initial
        CppRowLife life
        optional[CppOptParams] opt_params
        CppTableMemory memory
    cdef cppclass CppModelSpec "hugectr::ModelSpec":
        CppInputSpec input
        vector[CppSparseEmbeddingSpec] embeddings
        vector[CppDenseLayerSpec] layers
        CppOptParams opt_params
        cbool trains
