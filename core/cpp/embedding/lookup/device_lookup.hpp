// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/cpp/embedding/exchange/replica_exchange.hpp"
#include "core/cpp/embedding/exchange/unique_exchange.hpp"
#include "core/cpp/embedding/lookup/frequent_keys.hpp"
#include "core/cpp/embedding/lookup/lookup_group.hpp"
#include "core/cpp/embedding/lookup/lookup_plan.hpp"
#include "core/cpp/embedding/lookup/own_steps.hpp"
#include "core/cpp/embedding/lookup/positions.hpp"
#include "core/cpp/embedding/sharded_table.hpp"
#include "core/cpp/embedding/table/row_staging.hpp"
#include "core/cpp/ops/lookup_sort.hpp"

namespace hugectr {

/// One device's side of a LookupGroup: its part of every table, the routes of their vectors, and
/// the plans. Called by the device's own threads.
class DeviceLookup {
 public:
  DeviceLookup(const std::vector<std::unique_ptr<ShardedTable>>& tables, GPUResource& gpu);

  void plan(std::span<const SparseTensor> batch, PlanSlot slot, bool train) {
    begin_plan(batch, slot, train);
    finish_plan(slot, {});
  }
  void begin_plan(std::span<const SparseTensor> batch, PlanSlot slot, bool train);
  /// Times of the samples of the batch that is planned next, a table each; empty: none.
  void take_times(std::span<const SparseTensor> times, PlanSlot slot);
  void finish_plan(PlanSlot slot, const std::function<void()>& check);
  bool has_room(PlanSlot slot) const;
  void submit_plan(PlanSlot slot);
  void confirm_plan(PlanSlot slot, const std::function<void()>& check);
  void make_room_for_next(PlanSlot slot);
  void wait_for_slot(PlanSlot slot) { gpu_.plan_stream().wait(*plans_.at(at(slot)).released); }
  /// Rows that the plan numbered, and those of later ones, never were.
  void drop_plan(PlanSlot slot);
  void forward(PlanSlot slot, std::span<const TensorRef> outputs, const TensorRef& step,
               bool beside, MicroBatch part);
  void send_gradients(PlanSlot slot, std::span<const TensorRef> gradients, const TensorRef& step,
                      bool beside, MicroBatch part);
  void bring_gradients(PlanSlot slot, std::span<const TensorRef> gradients,
                       const TensorRef& squares, const TensorRef& step);
  void backward_and_update(PlanSlot slot, std::span<const TensorRef> gradients,
                           const UpdateScalars& scalars, bool beside);

  PlanSlot add_slot();
  std::vector<PlannedRows> planned_rows(PlanSlot slot) const;
  void sum_gradients(PlanSlot slot, std::span<const TensorRef> gradients,
                     std::span<const TensorRef> sums);
  void end_plan(PlanSlot slot);

  void report_memory(std::vector<MemoryReportEntry>& report) const;
  GPUResource& gpu() const { return gpu_; }
  const std::string& owner() const { return owner_; }

 private:
  /// What belongs to one table on this device. A hybrid has two parts: behind those of all tables
  /// comes one of its frequent rows, whose vectors are added to those of the others.
  struct Part {
    std::size_t number;  ///< of the table
    ShardedTable& table;
    Table& rows;
    Route route;
    bool holds;          ///< whether rows of it may lie here; else its plans are empty
    bool may_send_rows;  ///< whether training batches may travel by the unique exchange
    PositionStarts starts;
    std::unique_ptr<FrequentKeys> frequent;  ///< of the part of frequent rows, else null
    std::size_t frequent_part = 0;           ///< of a hybrid its other part; 0: there is none
  };

  static std::size_t at(PlanSlot slot) { return static_cast<std::size_t>(slot); }

  Rounding rounding(const TensorRef& step) const { return {parts_.front().rows.spec().seed, step}; }
  void add_part(std::size_t number, ShardedTable& table, bool frequent);
  bool has_hybrids() const { return parts_.size() > tables_; }
  /// What is given for tables as it is for parts: the same without hybrids, else in `all`.
  template <class T>
  std::span<const T> of_parts(std::span<const T> of_tables, std::vector<T>& all) const {
    if (!has_hybrids()) return of_tables;
    all.assign(of_tables.begin(), of_tables.end());
    for (std::size_t p = all.size(); p < parts_.size(); ++p) {
      all.push_back(of_tables[parts_[p].number]);
    }
    return all;
  }

  // Making plans (plan_making.cpp).
  /// The batch with the buckets that vectors are made of: of un-pooled slots each position is one.
  std::vector<SparseTensor> in_buckets(LookupPlan& plan, std::span<const SparseTensor> batch);
  /// Up to where the host waits for what is in the tables, and the rest.
  void look_up_keys(LookupPlan& plan, std::span<const SparseTensor> batch);
  void make_plan(LookupPlan& plan, const std::function<void()>& check);
  /// Tables are as they were before a plan that failed.
  void undo(const LookupPlan& plan);
  /// The batch as tables look it up by their first parts: of hybrids without frequent keys.
  std::vector<SparseTensor> without_frequent(LookupPlan& plan, std::span<const SparseTensor> batch);
  /// Own keys of all tables, waiting once for how many they are.
  void filter(LookupPlan& plan, std::span<const SparseTensor> batch);
  /// Whether it looks up some keys of a batch, not all and not none.
  static bool filters(const Part& part);
  /// Of what has been filtered, the keys that are looked up here: of tables that all devices have
  /// those of its samples.
  void take_own_keys(LookupPlan& plan);
  void make_buffers(const Part& part, const LookupPlan& plan, TablePlan& own);
  void group_keys(LookupPlan& plan, std::span<const SparseTensor> batch) const;
  /// Looks the keys of all tables up, of a training plan as new ones where they are not there.
  void begin_numbers(LookupPlan& plan) const;
  void begin_finding(LookupPlan& plan) const;
  /// What came of looking keys up in all tables, to the host once the stream has been waited for.
  void read_outcomes(const OpContext& context) const;
  /// Rows of the keys of all tables, from what came of them.
  void number(LookupPlan& plan) const;
  void take_numbers(const LookupPlan& plan) const;
  /// Whether rows of new keys lie where their numbers say, in tables of this device alone, and
  /// nothing but memory bounds them: what has_room() asks of a group.
  bool keeps_order() const;
  void begin_rows(LookupPlan& plan) const;
  /// Rows of the keys of other devices' samples, in tables that all devices have. Collective.
  void number_rows_of_others(LookupPlan& plan) const;
  void enlarge(const Part& part, const LookupPlan& plan, TablePlan& own, std::size_t n) const;
  std::vector<ReplicaLookup> replicated(LookupPlan& plan) const;
  void find(LookupPlan& plan) const;
  void choose_exchanges(LookupPlan& plan, std::span<const SparseTensor> looked_up,
                        std::span<const SparseTensor> batch);
  /// Brings the rows of all tables to places, waiting once for what is missing, and writes new
  /// ones.
  void stage(LookupPlan& plan);
  /// Whether rows of a plan come on the move stream.
  bool moves_rows() const;
  static bool sorts(const Part& part, const LookupPlan& plan);
  static LookupSort sort_of(const LookupPlan& plan, const TablePlan& own);
  /// Throws OutOfMemory, on all devices alike, when a table that forgets none has too many rows.
  void check_max_rows(const LookupPlan& plan) const;
  static bool admits(const Part& part) { return part.table.params().life.admit_after > 1; }
  void check_reserved(const Part& part, const TablePlan& own, std::int64_t first_reserved) const;
  void check_outside(const Part& part, const TablePlan& own, std::int64_t first_outside) const;
  /// Sample of the batch and slot of an own key.
  std::pair<std::size_t, std::size_t> place_of_key(const Part& part, const TablePlan& own,
                                                   std::int64_t number) const;

  /// Writes what rows begin with that could not be written while the step before ran: ahead of all
  /// that uses them, on the stream that does, which is behind that step's update.
  static void begin_behind_update(const OpContext& context, LookupPlan& plan);
  /// Notes which rows the step uses, and which of them it is not to train.
  void score(const OpContext& context, const LookupPlan& plan, std::span<const TensorRef> gradients,
             const TensorRef& step) const;
  /// Candidates become again what they were.
  void restart_candidates(const OpContext& context, const LookupPlan& plan,
                          std::span<const TensorRef> gradients) const;
  LookupPlan& planned(PlanSlot slot, std::span<const TensorRef> vectors);
  /// What travels by one exchange; only tables that train.
  std::vector<Shipment> shipments(const LookupPlan& plan, std::span<const TensorRef> vectors,
                                  const Exchange* exchange, bool training) const;
  /// The gradients of tables that travel by one exchange, as their owners need them.
  std::vector<Shipment> backward(const OpContext& context, const LookupPlan& plan,
                                 std::span<const TensorRef> gradients, const Exchange* exchange,
                                 const Rounding& rounding, MicroBatch part) const;
  /// The same of all micro-batches, one after the other.
  std::vector<Shipment> backward_all(const OpContext& context, const LookupPlan& plan,
                                     std::span<const TensorRef> gradients, const Exchange* exchange,
                                     const Rounding& rounding) const;
  void update(const OpContext& context, std::span<const Shipment> gradients,
              const UpdateScalars& scalars);

  GPUResource& gpu_;
  std::string owner_;  ///< tables and device, for reports
  std::size_t tables_;
  std::size_t micro_batches_ = 1;  ///< of training batches
  std::vector<Part> parts_;
  OwnSteps own_steps_;
  std::unique_ptr<Exchange> pooled_;
  std::unique_ptr<UniqueExchange> unique_;    ///< null: vectors travel pooled, or not at all
  std::unique_ptr<ReplicaExchange> replica_;  ///< null: no table is on all devices
  std::vector<const Exchange*> exchanges_;    ///< in the order in which all devices use them
  std::deque<LookupPlan> plans_;              ///< by slot
  /// By slot and exchange: gradients that are here already. Of the step that has the slot: another
  /// slot's plan may fail meanwhile, on another thread.
  std::deque<std::vector<std::vector<Shipment>>> brought_;
  std::uint64_t last_plan_ = 0;
  std::vector<std::size_t> bounded_;  ///< tables with max_rows that forget no row
  TensorBag2 live_rows_, live_rows_of_all_;
  RowStaging staging_;
  Tensor2<std::uint32_t> own_ends_;  ///< (parts, 2), staging: of own keys among those filtered
};

}  // namespace hugectr
