// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/base/opt_params.hpp"
#include "core/cpp/data/data_reader.hpp"
#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/memory/general_buffer2.hpp"

namespace hugectr {

enum class EmbeddingType { DistributedSlotSparseEmbeddingHash, LocalizedSlotSparseEmbeddingHash };
enum class Combiner { Sum, Mean };
/// How vectors of a training batch travel between devices: pooled by the owners of rows, or each
/// distinct row once, pooled where it is used. Auto: rows where they are at most three quarters of
/// the bytes, batch by batch.
enum class ExchangeType { Auto, Pooled, Unique };

struct SparseEmbeddingHashParams {
  std::string name;  ///< top name: what messages call the table
  EmbeddingType type = EmbeddingType::DistributedSlotSparseEmbeddingHash;
  Combiner combiner = Combiner::Sum;
  ExchangeType exchange = ExchangeType::Auto;
  std::size_t table_id = 0;  ///< position in the model; part of the seed of new rows
  std::size_t slot_num = 0;
  std::size_t embedding_vec_size = 0;  ///< d, 1..1024
  bool i64_keys = false;
  /// What exchange buffers are made for: forward()'s output and its gradient may hold float32,
  /// float16 or bfloat16, of this size at most.
  TensorScalarType output_type = TensorScalarType::Float32;
  /// Rows a device may hold; 0 = as many as memory takes.
  std::size_t max_vocabulary_size_per_gpu = 0;
  /// Localized: slot k's new rows are uniform in +-sqrt(1/size[k]), else +-0.05. The budget is then
  /// the sum over the device's slots, and wins over max_vocabulary_size_per_gpu.
  std::vector<std::size_t> slot_size_array;
  OptParams opt_params;
  std::size_t batch_size = 0;       ///< global, training
  std::size_t batch_size_eval = 0;  ///< global
};

/// Rows of one table on the host: how tables are saved, loaded and gathered. Sorted by (slot, key)
/// when dumped.
struct BufferBag {
  std::size_t vec_size = 0;
  std::vector<std::int64_t> keys;       ///< n; uint32 keys widened without sign
  std::vector<std::uint64_t> slot_ids;  ///< n (Localized), else empty
  std::vector<float> vectors;           ///< n * vec_size
  /// One entry an optimizer state, in the order m, v (Adam) | accumulator | momentum: n * vec_size.
  std::vector<std::vector<float>> states;
  /// Adam LazyGlobal: the step each row was last brought up to; else empty.
  std::vector<std::int64_t> last_step;
  std::size_t size() const { return keys.size(); }
};

/// Rows to load that lie on the host, with whoever holds them; as in BufferBag.
struct HCTR_API RowView {
  std::size_t size = 0;  ///< n
  std::size_t vec_size = 0;
  const std::int64_t* keys = nullptr;
  const std::uint64_t* slot_ids = nullptr;  ///< null: none
  const float* vectors = nullptr;
  std::vector<const float*> states;         ///< empty: none, rows begin with their first states
  const std::int64_t* last_step = nullptr;  ///< null: none

  RowView() = default;
  /// Throws InvalidArgument when the sizes of the bag's arrays do not go together.
  RowView(const BufferBag& rows);  // NOLINT: a bag is meant to be taken for its rows
};

/// A moment in the life of a table: which rows were touched since. 0: the beginning.
using RowMark = std::uint32_t;

/// Rows of the local devices in the order of a dump, and where they lie. Good until rows are
/// planned, loaded or forgotten; what is read by it are the values at the time of reading.
struct RowOrder {
  std::vector<std::int64_t> keys;       ///< n
  std::vector<std::uint64_t> slot_ids;  ///< n (Localized), else empty
  std::vector<std::uint32_t> devices;   ///< n local ids; empty when there is one device
  std::vector<std::uint32_t> rows;      ///< n: row on its device
  std::uint64_t table = 0;              ///< number of the table it is of, in this process
  std::size_t size() const { return keys.size(); }
};

/// Where values of rows are to be written on the host, as in BufferBag; what is null is left out.
struct RowValues {
  float* vectors = nullptr;
  std::vector<float*> states;
  std::int64_t* last_step = nullptr;
};

/// A training batch is planned one ahead: two plans are alive at once, and one for evaluation.
enum class PlanSlot : int { Train0 = 0, Train1 = 1, Eval = 2 };

/// Trained rows of one device where they lie, in the order they were inserted. Growing the table
/// never moves them; their values are written on the compute stream.
struct TableRows {
  TensorRef keys;                 ///< (n) uint32 or int64
  TensorRef slots;                ///< (n) uint32 (Localized), else empty
  TensorRef vectors;              ///< (n, d) float32
  std::vector<TensorRef> states;  ///< each (n, d) float32, in the order of BufferBag::states
};

struct TableStats {
  std::size_t rows = 0;          ///< trained rows, all local devices
  std::size_t max_rows = 0;      ///< budget of all local devices; 0 = none
  std::size_t index_slots = 0;   ///< hash table places
  std::size_t bytes = 0;         ///< rows + states + index, mapped
  std::size_t unique_plans = 0;  ///< training plans so far whose distinct rows travel
};

/// A table split over devices. The functions with local_id are called by that device's own thread,
/// all devices at the same time; the others by one thread while nothing else runs.
class HCTR_API IEmbedding {
 public:
  virtual ~IEmbedding() = default;
  virtual const SparseEmbeddingHashParams& get_embedding_params() const = 0;

  /// Stage 2b, on the plan stream: filters this device's keys, looks them up (train: inserts),
  /// makes room, writes new rows, sorts. Returns when the keys have been read and every error is
  /// known; forward() waits for what is then left on the plan stream. Throws InvalidArgument for
  /// the reserved key (sample, slot named), OutOfMemory for a full budget (table, device, rows
  /// asked and allowed); the table is then as before the call.
  /// With several devices training plans are collective, unless the exchange is Pooled.
  virtual void plan(std::size_t local_id, const SparseTensor& csr, PlanSlot slot, bool train) = 0;
  /// Makes the plan stream wait until nothing reads the slot's former plan. plan() does so itself:
  /// this is for those who measure it.
  virtual void wait_for_slot(std::size_t, PlanSlot) {}
  /// Drops a training plan that will not train: rows it inserted are taken back.
  virtual void drop_plan(PlanSlot slot) = 0;
  /// Stage 3, on the compute stream: output (b, S, d), any row_stride, is overwritten; float32,
  /// float16 or bfloat16 (vectors travel between devices in that type). Collective.
  virtual void forward(std::size_t local_id, PlanSlot slot, TensorRef output) = 0;
  /// gradient (b, S, d) of the output, any of its types -> every touched row updated; the plan's
  /// new rows become visible to evaluation and dumps. `lr` and `step` are device scalars (float32,
  /// int64, shape (1)); `unscale` (float32, shape (1), empty = 1) multiplies the gradient, 0 leaves
  /// rows, states and their last step as they are. Collective. When frozen: only the visibility.
  /// `beside`: on the exchange stream, for who makes it wait for the gradient, and the compute
  /// stream for its end.
  virtual void backward_and_update(std::size_t local_id, PlanSlot slot, TensorRef gradient,
                                   TensorRef lr, TensorRef step, TensorRef unscale,
                                   bool beside = false) = 0;

  virtual void freeze() = 0;
  virtual void unfreeze() = 0;
  virtual bool is_trainable() const = 0;

  /// Rows of the local devices, trained ones only, sorted by (slot, key).
  virtual BufferBag dump(bool with_states) = 0;
  /// The same rows in parts: their order (only those touched since a mark), then values of rows
  /// [begin, end) of it, through a bounded piece of host memory.
  virtual RowOrder order(RowMark since) = 0;
  virtual void read(const RowOrder& order, std::size_t begin, std::size_t end,
                    const RowValues& values) = 0;
  /// Whether rows have optimizer states, and the step they were last brought up to.
  virtual std::size_t state_count() const = 0;
  virtual bool has_last_step() const = 0;
  /// A mark at this moment. The first call makes the table note from now on which rows training
  /// and load() touch: 4 bytes a row and a small kernel a step, which nobody else pays for. Not
  /// while a training batch is planned.
  virtual RowMark mark() = 0;
  /// Whether order(since) tells all that changed: not when rows were forgotten in between.
  virtual bool knows_since(RowMark since) const = 0;
  /// The process that owns each row: by key (Distributed) or slot (Localized, one slot a key).
  virtual std::vector<std::uint32_t> row_processes(
      const std::vector<std::int64_t>& keys, const std::vector<std::uint64_t>& slot_ids) const = 0;
  /// Adds or overwrites rows: each goes to its owner; rows owned by other processes are passed
  /// over. Throws OutOfMemory before anything has changed when a budget is too small.
  virtual void load(const RowView& rows) = 0;
  /// Forgets all rows and states.
  virtual void reset() = 0;
  /// Zeroes the states, keeps the rows.
  virtual void reset_optimizer() = 0;
  /// The rows of one local device without a copy. Not while a plan is being made.
  virtual TableRows rows(std::size_t local_id) const = 0;
  virtual TableStats stats() const = 0;
  virtual std::vector<MemoryReportEntry> memory_report() const = 0;
};

HCTR_API std::unique_ptr<IEmbedding> make_embedding(const SparseEmbeddingHashParams& params,
                                                    std::shared_ptr<ResourceManager> resources);

}  // namespace hugectr
