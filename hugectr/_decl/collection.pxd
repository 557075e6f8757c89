# SPDX-License-Identifier: Apache-2.0
# Tables without a model.
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr
from libcpp.optional cimport optional
from libcpp.string cimport string
from libcpp.vector cimport vector

from hugectr._decl.base cimport CppDeviceId, CppOptParams, CppTensorScalarType
from hugectr._decl.errors cimport translate_error
from hugectr._decl.model cimport CppMemoryReportEntry, CppProcessGroup, CppTableAccess
from hugectr._decl.ops cimport CppTensorRef
from hugectr._decl.specs cimport CppCombiner, CppInitialVectors, CppTableMemory, CppTrainedSteps

cdef extern from "core/cpp/embedding/embedding_params.hpp" namespace "hugectr" nogil:
    cdef cppclass CppTableParams "hugectr::SparseEmbeddingHashParams":
        CppTableParams()
        string name
        CppCombiner combiner
        size_t table_id, slot_num, embedding_vec_size, max_vocabulary_size_per_gpu
        cbool i64_keys
        CppTensorScalarType vector_type
        CppInitialVectors initial
        CppOptParams opt_params
        CppTableMemory memory

cdef extern from "core/cpp/embedding/sharded_table.hpp" namespace "hugectr" nogil:
    cdef cppclass CppShardedTable "hugectr::ShardedTable":
        void freeze()
        void unfreeze()
        cbool is_trainable()
        CppTrainedSteps& trained_steps()

cdef extern from "core/cpp/data/data_reader.hpp" namespace "hugectr" nogil:
    cdef cppclass CppSparseTensor "hugectr::SparseTensor":
        CppTensorRef keys, row_offsets
        size_t nnz

cdef extern from "core/cpp/ops/bag_offsets.hpp" namespace "hugectr" nogil:
    cdef cppclass CppBagOffsets "hugectr::BagOffsets":
        pass

cdef extern from "core/cpp/embedding/collection/cut_memory.hpp" namespace "hugectr" nogil:
    vector[CppSparseTensor] pieces_of(const CppTensorRef&, const vector[size_t]&,
                                      const CppTensorRef&,
                                      const vector[size_t]&) except +translate_error
    vector[CppBagOffsets] bags_of(const CppTensorRef&, const vector[size_t]&,
                                  const CppTensorRef&) except +translate_error
    vector[CppTensorRef] columns_of(const CppTensorRef&,
                                    const vector[size_t]&) except +translate_error

cdef extern from "core/cpp/embedding/collection/table_collection.hpp" namespace "hugectr" nogil:
    cdef cppclass CppTableCollection "hugectr::TableCollection":
        CppTableCollection(const vector[CppTableParams]&, CppDeviceId,
                           uint64_t) except +translate_error
        size_t size()
        CppShardedTable& table(size_t) except +
        CppTableAccess& access(size_t) except +
        uint64_t plan(const vector[CppSparseTensor]&, uintptr_t,
                      vector[CppBagOffsets]) except +translate_error
        uint64_t begin(const vector[CppSparseTensor]&, uintptr_t,
                       vector[CppBagOffsets], cbool) except +translate_error
        void forward(uint64_t, const vector[CppTensorRef]&, uintptr_t) except +translate_error
        void look_up(const vector[CppSparseTensor]&, const vector[CppTensorRef]&,
                     uintptr_t, vector[CppBagOffsets]) except +translate_error
        void accumulate(uint64_t, const vector[CppTensorRef]&, uintptr_t) except +translate_error
        void update(uint64_t, const vector[CppTensorRef]&, const vector[float]&,
                    uintptr_t) except +translate_error
        void squares(const CppTensorRef&, uintptr_t) except +translate_error
        void step(const vector[float]&, const CppTensorRef&, uintptr_t) except +translate_error
        void clear_gradients() except +translate_error
        void accumulate_nothing()
        cbool has_gradients()
        void release(uint64_t) except +translate_error
        int64_t steps()
        void set_steps(int64_t) except +translate_error
        vector[CppMemoryReportEntry] memory_report() except +translate_error

cdef extern from "core/cpp/embedding/collection/process_rows.hpp" namespace "hugectr" nogil:
    cdef cppclass CppProcessRows "hugectr::ProcessRows":
        const vector[int64_t]& counts()
        vector[int64_t] of_processes(size_t, size_t) except +

cdef extern from "core/cpp/embedding/collection/table_sharing.hpp" namespace "hugectr" nogil:
    cdef cppclass CppSharedBatch "hugectr::SharedBatch":
        CppSharedBatch()
        CppProcessRows asked, wanted, given, returned
        uint64_t token

    cdef cppclass CppTableGroup "hugectr::TableSharing::Group":
        size_t d, first, end

    cdef cppclass CppTableSharing "hugectr::TableSharing":
        CppTableSharing(CppTableCollection&, vector[int64_t], size_t,
                        size_t) except +translate_error

        @staticmethod
        int64_t holder(string, size_t, size_t) except +translate_error
        vector[CppTableGroup] groups()
        cbool on_every_process(size_t) except +translate_error
        vector[int64_t] owners(size_t, const vector[int64_t]&) except +translate_error
        size_t room(size_t, size_t)
        cbool copies_to_all()
        void ask(CppSharedBatch&, const vector[CppSparseTensor]&, const CppTensorRef&,
                 const CppTensorRef&, uintptr_t, vector[CppBagOffsets],
                 cbool) except +translate_error
        void count(CppSharedBatch&) except +translate_error
        void forget_asked()
        void copy_to_all(const CppSharedBatch&, const CppTensorRef&, const CppTensorRef&,
                         uintptr_t) except +translate_error
        void answer(CppSharedBatch&, const vector[int64_t]&) except +translate_error
        void plan(CppSharedBatch&, const CppTensorRef&, uintptr_t,
                  cbool) except +translate_error
        void check(const CppSharedBatch&) except +translate_error
        void make_room(const CppSharedBatch&, CppTensorScalarType, cbool) except +translate_error
        void give(const CppSharedBatch&, const vector[CppTensorRef]&,
                  uintptr_t) except +translate_error
        void look_up(const CppSharedBatch&, const CppTensorRef&, const vector[CppTensorRef]&,
                     uintptr_t) except +translate_error
        void pool(const CppSharedBatch&, const vector[CppTensorRef]&, const vector[CppTensorRef]&,
                  uintptr_t) except +translate_error
        void sum_gradients(const CppSharedBatch&, const vector[CppTensorRef]&, double,
                           const vector[CppTensorRef]&, uintptr_t) except +translate_error
        void accumulate(const CppSharedBatch&, const vector[CppTensorRef]&,
                        uintptr_t) except +translate_error

cdef extern from "core/cpp/embedding/collection/shared_communicator.hpp" namespace "hugectr" nogil:
    cdef cppclass CppSharedCommunicator "hugectr::SharedCommunicator":
        CppSharedCommunicator(CppDeviceId, shared_ptr[CppProcessGroup]) except +translate_error
        void abort(const string&)

cdef extern from "core/cpp/embedding/collection/table_exchange.hpp" namespace "hugectr" nogil:
    cdef cppclass CppMessages "hugectr::TableExchange::Messages":
        vector[CppTensorRef] out, came

    cdef cppclass CppKeysAhead "hugectr::TableExchange::KeysAhead":
        CppSharedBatch* batch
        CppTensorRef out, came
        uintptr_t stream

    cdef cppclass CppTableExchange "hugectr::TableExchange":
        CppTableExchange(CppTableSharing&, CppSharedCommunicator&) except +translate_error
        void give(const CppSharedBatch&, CppMessages, uintptr_t) except +translate_error
        void accumulate(const CppSharedBatch&, CppMessages, uintptr_t,
                        CppKeysAhead) except +translate_error
        void settle(uintptr_t) except +translate_error
