// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "core/cpp/embedding/exchange/unique_exchange.hpp"
#include "core/cpp/embedding/lookup/lookup_group.hpp"
#include "core/cpp/embedding/lookup/lookup_plan.hpp"
#include "core/cpp/embedding/lookup/positions.hpp"
#include "core/cpp/embedding/sharded_table.hpp"
#include "core/cpp/ops/lookup_sort.hpp"

namespace hugectr {

/// One device's side of a LookupGroup: its part of every table, the routes of their vectors, and
/// the plans. Called by the device's own threads.
class DeviceLookup {
 public:
  DeviceLookup(const std::vector<std::unique_ptr<ShardedTable>>& tables, GPUResource& gpu);

  void plan(std::span<const SparseTensor> batch, PlanSlot slot, bool train);
  void wait_for_slot(PlanSlot slot) { gpu_.plan_stream().wait(*plans_.at(at(slot)).released); }
  /// Rows that the plan numbered, and those of later ones, never were.
  void drop_plan(PlanSlot slot);
  void forward(PlanSlot slot, std::span<const TensorRef> outputs);
  void bring_gradients(PlanSlot slot, std::span<const TensorRef> gradients,
                       const TensorRef& squares);
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
  /// What belongs to one table on this device.
  struct Part {
    ShardedTable& table;
    Table& rows;
    Route route;
    bool may_send_rows;  ///< whether training batches may travel by the unique exchange
    PositionStarts starts;
  };

  static std::size_t at(PlanSlot slot) { return static_cast<std::size_t>(slot); }

  // Making plans (plan_making.cpp).
  /// The batch with the buckets that vectors are made of: of un-pooled slots each position is one.
  std::vector<SparseTensor> in_buckets(LookupPlan& plan, std::span<const SparseTensor> batch);
  void make_plan(LookupPlan& plan, std::span<const SparseTensor> batch);
  /// Own keys of all tables, waiting once for how many they are.
  void filter(LookupPlan& plan, std::span<const SparseTensor> batch);
  void make_buffers(const Part& part, const LookupPlan& plan, TablePlan& own);
  void group_keys(LookupPlan& plan, std::span<const SparseTensor> batch) const;
  /// Rows of the keys of all tables, waiting once for what there is of them.
  void number(LookupPlan& plan) const;
  void find(LookupPlan& plan) const;
  void choose_exchanges(LookupPlan& plan, std::span<const SparseTensor> batch);
  static bool sorts(const Part& part, const LookupPlan& plan);
  static LookupSort sort_of(const LookupPlan& plan, const TablePlan& own);
  void check_reserved(const Part& part, const TablePlan& own, std::int64_t first_reserved) const;

  LookupPlan& planned(PlanSlot slot, std::span<const TensorRef> vectors);
  /// What travels by one exchange; only tables that train.
  std::vector<Shipment> shipments(const LookupPlan& plan, std::span<const TensorRef> vectors,
                                  const Exchange* exchange, bool training) const;
  /// The gradients of tables that travel by one exchange, as their owners need them.
  std::vector<Shipment> backward(const OpContext& context, const LookupPlan& plan,
                                 std::span<const TensorRef> gradients,
                                 const Exchange* exchange) const;
  static void update(const OpContext& context, std::span<const Shipment> gradients,
                     const UpdateScalars& scalars);

  GPUResource& gpu_;
  std::string owner_;  ///< tables and device, for reports
  std::vector<Part> parts_;
  std::unique_ptr<Exchange> pooled_;
  std::unique_ptr<UniqueExchange> unique_;      ///< null: vectors travel pooled, or not at all
  std::vector<const Exchange*> exchanges_;      ///< in the order in which all devices use them
  std::deque<LookupPlan> plans_;                ///< by slot
  std::vector<std::vector<Shipment>> brought_;  ///< by exchange: what bring_gradients() left
  std::uint64_t last_plan_ = 0;
  Tensor2<std::uint32_t> own_counts_;  ///< staging: what filter_keys kept, a table each
};

}  // namespace hugectr
