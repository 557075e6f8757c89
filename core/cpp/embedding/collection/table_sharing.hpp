// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/cpp/base/task_thread.hpp"
#include "core/cpp/embedding/collection/process_rows.hpp"
#include "core/cpp/embedding/collection/table_collection.hpp"
#include "core/cpp/memory/general_buffer2.hpp"
#include "core/cpp/ops/copy_blocks.hpp"
#include "core/cpp/ops/distinct_keys.hpp"

namespace hugectr {

/// A batch of one process in tables that are spread over processes, as TableSharing leaves it.
/// `room` and the row offsets are the caller's, to be kept as long as the batch.
struct SharedBatch {
  // As who asks for rows.
  std::vector<std::size_t> keys;          ///< of each table
  std::vector<TensorRef> row_offsets;     ///< (m + 1) of each table
  std::vector<TensorRef> numbers;         ///< (n) of each table: rows among those that come
  std::vector<TensorRef> scales;          ///< (m) of each table whose combiner is mean, else empty
  TensorRef sorted_buckets, run_offsets;  ///< DistinctKeys
  ProcessRows asked, asked_keys;          ///< rows that come, and the batch's keys of them
  ProcessRows wanted;                     ///< rows whose keys and gradients go out
  // As who holds rows.
  ProcessRows given;                 ///< rows whose keys and gradients come in
  ProcessRows returned;              ///< rows that go out
  TableCollection::Token token = 0;  ///< of the keys that came; 0: they are not planned
  std::exception_ptr failure;        ///< why their plan could not begin
};

/// Tables whose rows are spread over the processes of a job, each with a TableCollection of its own
/// for the rows that it holds, seen by one process. What travels is the caller's to move, in one
/// message each way for all tables of one vector size (a group), which holds a block a process; a
/// step calls
///
///   ask            distinct keys of the batch, by owner      -> keys to their owners
///   count          how many those are
///   answer         how many rows all processes ask for
///   plan           keys that came                            -> rows that others ask for are begun
///   give           vectors of those rows                     -> vectors to who asked
///   pool           vectors that came                         -> vectors of bags
///   sum_gradients  gradients of bags                         -> sums by row to the owners
///   accumulate     sums that came                            -> kept for the next update
///
/// whatever the number of tables. A row is with process key % N, with one process (all rows of the
/// table), or with every process: then its keys and gradients go to all of them, in the same order
/// everywhere, and its vectors nowhere.
///
/// `stream` as in TableCollection; its work is on a stream of its own in ask(), on the plan stream
/// in copy_to_all(), plan() and for the keys of look_up(), else on the compute stream. For one
/// thread at a time.
class HCTR_API TableSharing {
 public:
  static constexpr std::int64_t kByKey = -1, kEverywhere = -2;
  /// Who has the rows of a table: "by_key", "by_slot" (a table is a slot) or "replicated".
  static std::int64_t holder(std::string_view placement, std::size_t table, std::size_t processes);

  /// holders: of each table the process that has all rows, or one of the above.
  TableSharing(TableCollection& tables, std::vector<std::int64_t> holders, std::size_t rank,
               std::size_t processes);
  ~TableSharing();

  /// Tables first .. end - 1 in the order in which tables travel, all of d.
  struct Group {
    std::size_t d, first, end;
  };
  GPUResource& gpu() { return gpu_; }
  /// In the order in which tables first have their vector sizes.
  std::vector<Group> groups() const { return groups_; }
  bool on_every_process(std::size_t table) const { return holders_.at(table) == kEverywhere; }
  /// The process of each key of a table; this one where every process has all rows.
  std::vector<std::int64_t> owners(std::size_t table, std::span<const std::int64_t> keys) const;
  /// uint32 that ask() needs for a batch of so many keys, and bags in tables whose combiner is
  /// mean.
  std::size_t room(std::size_t keys, std::size_t mean_bags) const;

  /// keys (n of all tables) int64 := what goes out, by process. Nobody waits: all memory of the
  /// batch stays, and stays as it is, until count(), which comes before the next ask(). `bags`:
  /// what makes the row offsets, run first. `beside`: a thread submits it, while the caller goes
  /// on.
  void ask(SharedBatch& batch, std::span<const SparseTensor> tables, const TensorRef& keys,
           const TensorRef& room, std::uintptr_t stream, std::vector<BagOffsets> bags = {},
           bool beside = false);
  /// Waits until ask() is done: batch.wanted says how much goes out. May be called again. Bags that
  /// are none, and the reserved key, throw InvalidArgument.
  void count(SharedBatch& batch);
  /// Waits for an ask() that nobody has counted: its memory may go then. Errors are nobody's.
  void forget_asked() noexcept;
  /// Where a table is everywhere: `out` := what of `keys` goes out. Else that is all of them.
  void copy_to_all(const SharedBatch& batch, const TensorRef& keys, const TensorRef& out,
                   std::uintptr_t stream);
  bool copies_to_all() const { return copies_to_all_; }
  /// wanted: (N, N, T), of each process what it wants of each.
  void answer(SharedBatch& batch, std::span<const std::int64_t> wanted) const;

  /// keys (sum of batch.given) int64 as they came. Begins the plan as
  /// TableCollection::begin() does: check() and give() wait for it, and throw what is wrong with
  /// the keys, or why it could not begin.
  void plan(SharedBatch& batch, const TensorRef& keys, std::uintptr_t stream,
            bool beside = false) noexcept;
  /// Waits until the keys that came are planned; throws what is wrong with them.
  void check(const SharedBatch& batch);
  /// Has the memory there that give() of a batch needs, and accumulate() where that is to come.
  void make_room(const SharedBatch& batch, TensorScalarType type, bool gradients);
  /// out: of each group (sum of batch.returned, d), float32, float16 or bfloat16.
  void give(const SharedBatch& batch, std::span<const TensorRef> out, std::uintptr_t stream);
  /// The same of keys (sum of batch.given) that do not train: zeros for those without a row.
  void look_up(const SharedBatch& batch, const TensorRef& keys, std::span<const TensorRef> out,
               std::uintptr_t stream);
  /// came: of each group (sum of batch.asked, d), of the type of outputs or float32; outputs
  /// (m, 1, d) of each table, any row_stride.
  void pool(const SharedBatch& batch, std::span<const TensorRef> came,
            std::span<const TensorRef> outputs, std::uintptr_t stream);
  /// gradients (m, 1, d) of the outputs; empty: the table has none. out: of each group (sum of
  /// batch.wanted, d) := factor times sums by row.
  void sum_gradients(const SharedBatch& batch, std::span<const TensorRef> gradients, double factor,
                     std::span<const TensorRef> out, std::uintptr_t stream);
  /// came: of each group (sum of batch.given, d), float32 or bfloat16.
  void accumulate(const SharedBatch& batch, std::span<const TensorRef> came, std::uintptr_t stream);

 private:
  /// Memory that grows, for one stream.
  struct Growing {
    std::shared_ptr<DeviceBuffer2> arena;
    TensorBag2 memory;
    std::size_t words = 0;
  };
  /// n elements at the beginning of it; what it held is lost.
  TensorRef take(Growing& memory, const char* name, TensorScalarType type, std::size_t n,
                 Stream& stream);
  const SparseEmbeddingHashParams& params(std::size_t table) {
    return tables_.table(table).params();
  }
  bool everywhere(std::size_t rank) const { return holders_[order_[rank]] == kEverywhere; }
  void cut_room(SharedBatch& batch, std::span<const SparseTensor> tables,
                const TensorRef& room) const;
  /// What ask() submits before distinct_.
  struct Asking;
  void submit(Asking asking);
  void submit_distinct();
  OpContext asking_context();
  /// row_offsets of n bags of one key, or of one bag without a key.
  TensorRef bags(std::size_t n);
  void begin_plan(SharedBatch& batch, const TensorRef& keys, std::uintptr_t stream, bool beside);
  /// The keys that came, by table.
  std::vector<SparseTensor> by_table(const SharedBatch& batch, const TensorRef& keys);
  /// Memory for the vectors that are given, (rows, 1, d) of each table; empty where there are none.
  std::vector<TensorRef> given_vectors(const SharedBatch& batch, TensorScalarType type);
  /// Copies vectors between there and messages that hold so many of them.
  CopyBlocks between(const SharedBatch& batch, const Group& group, const ProcessRows& message,
                     bool out) const;
  void send(const SharedBatch& batch, std::span<const TensorRef> vectors,
            std::span<const TensorRef> out);

  TableCollection& tables_;
  GPUResource& gpu_;
  std::unique_ptr<Stream> asking_stream_;
  std::vector<std::int64_t> holders_;
  std::size_t rank_, processes_;
  bool copies_to_all_ = false;
  std::vector<Group> groups_;
  std::vector<std::size_t> order_;                       ///< table of each rank
  std::vector<std::int64_t> owners_, ranks_, group_of_;  ///< as DistinctKeys has them
  Growing buckets_, keys_, vectors_;
  std::shared_ptr<DeviceBuffer2> counts_arena_, staging_arena_;
  TensorBag2 counts_;  ///< (2 N T + 2): of DistinctKeys, the largest key, and all keys so far
  Tensor2<std::int64_t> counts_on_host_;
  Tensor2<std::int64_t> wrong_;  ///< staging, (1): whether bags are none
  /// 0, 1, 2, ... and two zeros. Plans go on reading what was before they grew.
  std::vector<std::shared_ptr<DeviceBuffer2>> places_arenas_;
  TensorBag2 places_, zeros_;
  std::size_t places_count_ = 0;
  DistinctKeys distinct_;  ///< of the last ask()
  bool asked_ = false;     ///< and not counted
  TaskThread beside_;
};

}  // namespace hugectr
