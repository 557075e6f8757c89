// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/data/data_reader.hpp"
#include "core/cpp/embedding/micro_batch.hpp"
#include "core/cpp/embedding/sharded_table.hpp"

namespace hugectr {

class DeviceLookup;

/// A training batch is planned one ahead: two plans are alive at once, and one for evaluation. Who
/// keeps more training plans alive adds slots (LookupGroup::add_slot).
enum class PlanSlot : int { Train0 = 0, Train1 = 1, Eval = 2 };
inline constexpr std::size_t kPlanSlots = 3;

/// What the plan of a training batch holds of one table on one device.
struct PlannedRows {
  TensorRef distinct;       ///< (>= count) uint32: row numbers, ascending, each once
  TensorRef count;          ///< (1) int64, on the device
  HashTable::State before;  ///< of the table when the plan was made
  RowExtent extent;         ///< of the table, with the rows that the plan inserted
  std::shared_ptr<const void> pin;
};

/// Device scalars of an update.
struct UpdateScalars {
  TensorRef lr;             ///< (1) float32
  TensorRef step;           ///< (1) int64
  TensorRef unscale;        ///< (1) float32, or empty: 1
  std::int64_t number = 0;  ///< what `step` holds
};

/// Tables that travel together: one plan a batch and one exchange each way for all of them, vector
/// sizes, combiners and placements alike or not. Each table keeps its own index, rows, plan
/// (TablePlan) and buffers, so that a table's numbers do not depend on who travels with it; what
/// the group makes one is the work:
///
///   an op of all tables is one (several.hpp): on a GPU one launch with a list of tables, where
///     launches, not bytes, are what small tables cost
///   the host waits once for own keys of all tables, once for their rows, and once for what devices
///     ask each other
///   vectors of all tables that go by the same exchange travel in one collective
///     (Communicator::together), each from and to its own buffers, so that nothing is packed
///
/// Any tables can be a group. may_travel_together() is what a model goes by.
///
/// The functions with local_id are called by that device's own thread, all devices at the same
/// time; the others by one thread while nothing else runs. What they are given and write holds an
/// entry a table, in the order of the tables.
class HCTR_API LookupGroup {
 public:
  LookupGroup(const std::vector<SparseEmbeddingHashParams>& tables,
              std::shared_ptr<ResourceManager> resources);
  /// Waits for the plan streams: plan() leaves work there that uses this object's memory.
  ~LookupGroup();

  std::size_t size() const { return tables_.size(); }
  ShardedTable& table(std::size_t i) { return *tables_.at(i); }
  const ShardedTable& table(std::size_t i) const { return *tables_.at(i); }

  /// Stage 2b, on the plan stream: filters this device's keys, looks them up (train: inserts),
  /// makes room, writes new rows, sorts. Returns when the keys have been read and every error is
  /// known; forward() waits for what is then left on the plan stream. Throws InvalidArgument for
  /// the reserved key (sample, slot named), OutOfMemory for a full budget (table, device, rows
  /// asked and allowed); the tables are then as before the call.
  /// With several devices training plans are collective, unless every exchange is Pooled.
  void plan(std::size_t local_id, std::span<const SparseTensor> batch, PlanSlot slot, bool train);
  /// Times of the samples of the batch that is planned next in this slot, an entry a table: in
  /// seconds since 1970, at most one a sample; empty: the table has none.
  void take_times(std::size_t local_id, std::span<const SparseTensor> times, PlanSlot slot);
  /// plan() in halves, for one device: the first submits the lookup of the keys and waits for
  /// nothing they wait for; the second waits for that lookup and does the rest. The batch stays as
  /// it is meanwhile, and nothing else is asked of the tables' indices. `check` is called when the
  /// host has waited: what it throws is thrown as an error of the keys is.
  void begin_plan(std::size_t local_id, std::span<const SparseTensor> batch, PlanSlot slot,
                  bool train);
  void finish_plan(std::size_t local_id, PlanSlot slot, const std::function<void()>& check = {});
  /// Whether a training plan that has been begun can be made before anybody knows which of its keys
  /// are new: on one device, of tables whose rows stay where they are, with memory for all of its
  /// keys to be new.
  bool has_room(std::size_t local_id, PlanSlot slot) const;
  /// The rest of such a plan, submitted without waiting for anything. Of this plan only forward()
  /// may follow until confirm_plan(), the second half of finish_plan(), which waits for the lookup
  /// and throws what that would: keys that are none have given zeros.
  void submit_plan(std::size_t local_id, PlanSlot slot);
  void confirm_plan(std::size_t local_id, PlanSlot slot, const std::function<void()>& check = {});
  /// Of a plan that had no room: memory, so that the next like it has_room(), where that is 1 GiB
  /// for all tables at most, or for one a sixteenth of what it has.
  void make_room_for_next(std::size_t local_id, PlanSlot slot);
  /// Makes the plan stream wait until nothing reads the slot's former plan. plan() does so itself:
  /// this is for those who measure it.
  void wait_for_slot(std::size_t local_id, PlanSlot slot);
  /// Drops a training plan that will not train: rows it inserted are taken back.
  void drop_plan(PlanSlot slot);
  /// Stage 3, on the compute stream: outputs (b, S, d), any row_stride, are overwritten; float32,
  /// float16 or bfloat16 (vectors travel between devices in that type, or as the tables' `wire`
  /// says). step: (1) int64, which numbers are rounded by chance with; empty: to nearest.
  /// `beside`: on the exchange stream, for who makes the compute stream wait for its end. `part`:
  /// the samples whose vectors are written; of a training batch the micro-batches that the tables'
  /// params speak of, one after the other, and of an evaluation all. Collective.
  void forward(std::size_t local_id, PlanSlot slot, std::span<const TensorRef> outputs,
               const TensorRef& step = {}, bool beside = false, MicroBatch part = {});
  /// Brings the gradients of a micro-batch to the owners of rows, for who has them before those of
  /// the next. gradients: (b, S, d) as of backward_and_update(), which follows with the same behind
  /// all micro-batches in their order, and on the same stream. Collective.
  void send_gradients(std::size_t local_id, PlanSlot slot, std::span<const TensorRef> gradients,
                      const TensorRef& step, bool beside, MicroBatch part);
  /// gradients (b, S, d) of the outputs, any of their types -> every touched row updated; the
  /// plan's new rows become visible to evaluation and dumps. An empty gradient leaves its table
  /// out. `unscale` multiplies gradients; 0 leaves rows, states and their last step as they are.
  /// Collective. Of a frozen table: only the visibility. `beside`: on the exchange stream, for who
  /// makes it wait for the gradients, and the compute stream for its end.
  void backward_and_update(std::size_t local_id, PlanSlot slot,
                           std::span<const TensorRef> gradients, const UpdateScalars& scalars,
                           bool beside = false);

  /// The first half of backward_and_update(), for who must know all gradients of a step before the
  /// first row changes: on the compute stream, gradients come to the owners of rows, and squares,
  /// (1) float64, grows by the sum of the squares of this device's rows' gradients. Of frozen
  /// tables nothing is counted. backward_and_update() of the same gradients follows, not beside.
  void bring_gradients(std::size_t local_id, PlanSlot slot, std::span<const TensorRef> gradients,
                       const TensorRef& squares, const TensorRef& step = {});

  // For who updates rows later than in backward, and by the gradients of several plans at once.

  /// One more slot for training plans, on all local devices.
  PlanSlot add_slot();
  /// Of each table, good until the slot is planned again. The plan stream writes it.
  std::vector<PlannedRows> planned_rows(std::size_t local_id, PlanSlot slot) const;
  /// On the compute stream: gradients (b, S, d) of a training plan's outputs -> sums (U, d)
  /// float32, of each of its U distinct rows on this device. Nothing is updated, and the same plan
  /// may be asked again. An empty gradient, and a frozen table, leave their sums as they are.
  /// Collective.
  void sum_gradients(std::size_t local_id, PlanSlot slot, std::span<const TensorRef> gradients,
                     std::span<const TensorRef> sums);
  /// The slot's plan is not used any more. What it inserted stays as it is.
  void end_plan(std::size_t local_id, PlanSlot slot);

  std::vector<MemoryReportEntry> memory_report() const;

 private:
  std::vector<std::unique_ptr<ShardedTable>> tables_;
  std::vector<std::unique_ptr<DeviceLookup>> devices_;
};

/// Whether two tables of a model are one group: keys of one type, one optimizer and update type,
/// and vectors that are made and travel in one type. Others would be no fewer launches.
HCTR_API bool may_travel_together(const SparseEmbeddingHashParams& a,
                                  const SparseEmbeddingHashParams& b);

}  // namespace hugectr
