// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/base/task_thread.hpp"
#include "core/cpp/embedding/collection/insertions.hpp"
#include "core/cpp/embedding/collection/row_gradients.hpp"
#include "core/cpp/embedding/lookup/lookup_group.hpp"
#include "core/cpp/embedding/table_access.hpp"
#include "core/cpp/ops/bag_offsets.hpp"

namespace hugectr {

/// Tables without a model, for who has forward and backward of their own: an optimizer and a
/// LookupGroup on one device. Batches may have any size and any number of them may be alive.
///
///   plan(keys)               -> token       rows of new keys are begun; nobody else sees them
///   begin(keys)              -> token       the same without waiting for the keys
///   forward(token)           -> vectors
///   accumulate(token, gradients)            summed by row, kept; rows stay as they are
///   step(rates)                             one update a row with the sum over all batches
///   update(token, gradients, rates)         both, of one batch
///   clear_gradients()                       forgets what came since the last step
///   release(token)                          the batch is over
///
/// A row is shown to look_up() and to those who read tables by the step that trains it; a batch
/// that is released without one leaves no trace. A batch may be accumulated more than once, and
/// released before the step.
///
/// `stream` is the caller's (0 on the CPU): what it holds comes before the work of a call, and what
/// it gets later comes after it. On the CPU calls return when their work is done. Calls may come
/// from any thread, one at a time.
class HCTR_API TableCollection {
 public:
  using Token = std::uint64_t;

  /// slot_num must be 1: a table takes a list of buckets, whatever they are to the caller. All
  /// params need one optimizer; `seed` is what new rows are drawn by.
  TableCollection(const std::vector<SparseEmbeddingHashParams>& tables, DeviceId device,
                  std::uint64_t seed);
  ~TableCollection();

  std::size_t size() const { return group_.size(); }
  DeviceId device() const { return gpu_.device(); }
  GPUResource& gpu() { return gpu_; }
  ShardedTable& table(std::size_t i) { return group_.table(i); }
  /// Rows of a table in and out; while no batch is alive, where it changes rows.
  TableAccess& access(std::size_t i) { return *access_.at(i); }

  /// One entry a table: keys and the offsets of m buckets, both on the device. The row offsets must
  /// stay until forward() has run. Throws as LookupGroup::plan() does; nothing has changed then.
  /// `bags`: what makes the row offsets, run first; InvalidArgument where it finds something wrong.
  Token plan(std::span<const SparseTensor> batch, std::uintptr_t stream,
             std::vector<BagOffsets> bags = {});
  /// As plan(), but the host waits for the lookup of the keys only when the next call needs what
  /// came of it: accumulate() of the batch, another batch, rows in or out; forward() of the batch
  /// where tables might have to grow for it, or where the collection always waits
  /// (HUGECTR_WAIT_FOR_KEYS). What goes wrong is thrown by calls with the token, or by the next
  /// batch's first call where this one is over by then. All memory of the batch must stay, and stay
  /// as it is, until forward() has run. `beside`: a thread submits the lookup, while the caller
  /// goes on, with forward() of other batches too; then nothing is wrong with the batch before its
  /// calls.
  Token begin(std::span<const SparseTensor> batch, std::uintptr_t stream,
              std::vector<BagOffsets> bags = {}, bool beside = false);
  /// The second half of begin(), if one is due: nobody reads keys of that batch afterwards but the
  /// plan stream, in its order.
  void finish_begun();
  /// Waits until a batch is planned; throws what is wrong with it.
  void check(Token token) { batch_of(token); }
  /// Until all of a begin() has been submitted.
  void settle_begun() const { beside_.wait(); }
  /// outputs (m, 1, d), any row_stride, float32, float16 or bfloat16, are overwritten. May be
  /// called again: rows are as the last step left them.
  void forward(Token token, std::span<const TensorRef> outputs, std::uintptr_t stream);
  /// The vectors of a batch that does not train: what it does not know is zeros. Inserts nothing.
  void look_up(std::span<const SparseTensor> batch, std::span<const TensorRef> outputs,
               std::uintptr_t stream, std::vector<BagOffsets> bags = {});
  /// gradients (m, 1, d) of the outputs, any of their types; empty: the table has none.
  void accumulate(Token token, std::span<const TensorRef> gradients, std::uintptr_t stream);
  /// Has the memory there that accumulate() of a batch keeps sums in.
  void make_room_for_gradients(Token token);
  /// squares (tables) float64: of the gradients that wait, rows summed over batches.
  void squares(const TensorRef& squares, std::uintptr_t stream);
  /// Updates with a rate a table. unscale (tables) float32 multiplies gradients, 0 leaves a table
  /// as it is; empty: 1. Counts as an update of the optimizer.
  void step(std::span<const float> rates, const TensorRef& unscale, std::uintptr_t stream);
  /// accumulate() and step() at once. Where no other gradients wait the sums of rows are not kept
  /// in between: the update of a training step, with the same numbers.
  void update(Token token, std::span<const TensorRef> gradients, std::span<const float> rates,
              std::uintptr_t stream);
  void clear_gradients();
  /// A batch without a key has gradients: the next step counts, and moves rows that others move.
  void accumulate_nothing() { has_gradients_ = true; }
  /// Whether gradients wait for a step.
  bool has_gradients() const { return has_gradients_; }
  void release(Token token);

  /// Updates so far: what bias corrections count by.
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps);

  std::vector<MemoryReportEntry> memory_report() const;

  /// Submits what makes bags; what it finds is in `wrong`, staging, when that has been waited for.
  static void make_bags(const OpContext& context, std::vector<BagOffsets> bags,
                        Tensor2<std::int64_t>& wrong);
  /// Throws InvalidArgument for what was found.
  static void check_bags(const Tensor2<std::int64_t>& wrong);

 private:
  class Access;
  static constexpr std::size_t kLocal = 0;  ///< the only device
  /// A place for a plan, used again and again.
  struct Batch {
    PlanSlot slot{};
    Tensor2<std::int64_t> row_counts;  ///< staging: distinct rows of each table
    Tensor2<std::int64_t> wrong;       ///< staging, (1): whether its bags are not good
    std::unique_ptr<Event> counted;
    std::exception_ptr failure;      ///< why there is no plan
    std::vector<SparseTensor> keys;  ///< until the plan is made
    bool given = false;              ///< vectors have been, before anybody knew of its keys
  };
  Batch take_batch();
  /// Rows of a table that batches which are alive have, some of them twice.
  std::vector<std::uint32_t> rows_alive(std::size_t table);
  /// finish(), once more where a table is full of rows that never trained.
  void finish_in_room(Token token, Batch& batch);
  Batch& alive(Token token);
  /// With its plan made; throws why there is none.
  Batch& batch_of(Token token);
  void finish(Token token, Batch& batch);
  void check_rates(std::span<const float> rates) const;
  /// Brings them to the device where they are others than before.
  void set_rates(std::span<const float> rates);
  bool updates_at_once(std::span<const float> rates) const;
  /// The gradients have been applied: rows of `updated` are those of their batches.
  void stepped(std::int64_t number, const Insertions::RowsOfTable& updated);
  /// Throws what nobody has been told of a batch that is over.
  void tell();
  /// The first half of begin(). `ahead`: and the second, where it can be submitted already.
  void look_up_begun(Batch& batch, std::span<const SparseTensor> keys, std::vector<BagOffsets> bags,
                     bool ahead);
  /// The second half, of a batch that has_room(): nobody waits.
  void submit_rest(Batch& batch);
  /// The same where forward() comes first; what goes wrong is the batch's failure.
  void submit_begun();
  /// What follows the plan of a batch on the plan stream.
  void count_rows(Batch& batch);
  /// On the host: the distinct rows of a batch.
  std::vector<std::uint32_t> planned_rows_of(Batch& batch, std::size_t table);
  /// What waits for a step is over, or comes to nothing.
  void drop_gradients();

  std::shared_ptr<ResourceManager> resources_;
  GPUResource& gpu_;
  LookupGroup group_;
  RowGradients gradients_;
  Insertions insertions_;
  /// By table: rows of batches whose gradients wait, where they have none of the table (it is
  /// frozen, or no part of the loss) and insertions_ could take the rows for another batch's.
  std::vector<std::vector<std::uint32_t>> without_gradients_;
  std::vector<std::unique_ptr<TableAccess>> access_;
  std::shared_ptr<DeviceBuffer2> scalars_arena_;
  Tensor2<float> rates_;
  std::vector<float> rates_there_;  ///< what they have been set to
  std::shared_ptr<DeviceBuffer2> staging_arena_;
  Tensor2<std::int64_t> wrong_;  ///< as Batch::wrong, of batches that do not train
  std::map<Token, Batch> alive_;
  std::vector<Batch> idle_;
  Token last_ = 0;
  Token begun_ = 0;            ///< the batch of which half a plan is made; 0: there is none
  bool submitted_ = false;     ///< of it: the rest is submitted, and nobody knows yet of its keys
  std::exception_ptr untold_;  ///< why a batch was none whose vectors were given and that is over
  bool waits_;                 ///< forward() for the keys of its batch, however much room there is
  std::int64_t steps_ = 0;
  bool has_gradients_ = false;
  bool tiered_ = false;  ///< whether a table is over tiers
  bool sweeps_ = false;  ///< whether an update changes rows that batches do not have
  mutable TaskThread beside_{"hctr-lookup"};
};

}  // namespace hugectr
