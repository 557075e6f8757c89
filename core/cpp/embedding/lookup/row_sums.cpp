// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "core/cpp/device/several.hpp"
#include "core/cpp/embedding/lookup/device_lookup.hpp"
#include "core/cpp/ops/embedding_gradient.hpp"

/// Gradients of a plan's rows for who updates later than in backward, by several plans at once.
namespace hugectr {

std::vector<PlannedRows> DeviceLookup::planned_rows(PlanSlot slot) const {
  const LookupPlan& plan = plans_.at(at(slot));
  HCTR_CHECK(plan.train && plan.is_made(), owner_, ": this slot has no training plan");
  std::vector<PlannedRows> tables;
  tables.reserve(plan.tables.size());
  for (const TablePlan& own : plan.tables) {
    tables.push_back({own.unique_rows.ref(), own.run_count.ref(), own.before, own.extent, own.pin});
  }
  return tables;
}

void DeviceLookup::sum_gradients(PlanSlot slot, std::span<const TensorRef> gradients,
                                 std::span<const TensorRef> sums) {
  LookupPlan& plan = planned(slot, gradients);
  HCTR_CHECK(plan.train, owner_, ": an evaluation plan has no gradients");
  HCTR_CHECK(sums.size() == parts_.size(), "a group of ", parts_.size(), " tables got sums of ",
             sums.size());
  const OpContext context = gpu_.compute_context();
  context.stream->wait(*plan.ready);
  begin_behind_update(context, plan);
  std::vector<EmbeddingGradient> ops;
  ops.reserve(parts_.size());
  for (const Exchange* exchange : exchanges_) {
    for (const Shipment& gradient :
         backward_all(context, plan, gradients, exchange, rounding({}))) {
      const TablePlan& own = *gradient.plan;
      const TensorRef& sum = sums[gradient.table];
      if (gradient.route->own_slots() == 0 || sum.size() == 0) continue;
      ops.push_back({.sorted_buckets = own.sorted_buckets.ref(),
                     .run_offsets = own.run_offsets.ref(),
                     .gradient = gradient.vectors,
                     .scale = own.run_scale,
                     .sums = sum});
    }
  }
  run_several(context, std::move(ops));
  context.stream->record(*plan.released);
}

void DeviceLookup::end_plan(PlanSlot slot) {
  LookupPlan& plan = plans_.at(at(slot));
  gpu_.compute_stream().record(*plan.released);
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    parts_[t].rows.store().release(plan.slot, plan.released);
    plan.tables[t].pin.reset();
  }
  plan.state = LookupPlan::State::Empty;
}

}  // namespace hugectr
