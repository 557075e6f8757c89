// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/lookup/device_lookup.hpp"

/// Plans that are made before the host knows which of their keys are new, because there is room for
/// all of them to be.
namespace hugectr {

bool DeviceLookup::keeps_order() const {
  return !has_hybrids() && !moves_rows() && bounded_.empty() &&
         parts_.front().route.device_count() == 1;
}

bool DeviceLookup::has_room(PlanSlot slot) const {
  const LookupPlan& plan = plans_.at(at(slot));
  if (plan.state != LookupPlan::State::Begun || !plan.train || !keeps_order()) return false;
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    if (!parts_[t].rows.has_room(plan.tables[t].key_count())) return false;
  }
  return true;
}

void DeviceLookup::submit_plan(PlanSlot slot) {
  LookupPlan& plan = plans_.at(at(slot));
  HCTR_CHECK(has_room(slot), owner_, ": this slot has no plan that can be made without waiting");
  const OpContext context = gpu_.plan_context();
  context.stream->record(*plan.looked_up);
  plan.state = LookupPlan::State::Empty;
  try {
    // As if all keys were new: the most rows that there can be.
    for (TablePlan& own : plan.tables) {
      const std::size_t rows = own.before.rows + own.key_count();
      own.extent = {rows, rows, 0};
      own.reused = {};
    }
    choose_exchanges(plan, plan.batch, plan.batch);
    stage(plan);
    for (std::size_t t = 0; t < parts_.size(); ++t) {
      plan.tables[t].scores = {};
      plan.tables[t].pin = parts_[t].rows.pin();
    }
    context.stream->record(*plan.ready);
  } catch (...) {
    undo(plan);
    throw;
  }
  plan.state = LookupPlan::State::Submitted;
}

void DeviceLookup::confirm_plan(PlanSlot slot, const std::function<void()>& check) {
  LookupPlan& plan = plans_.at(at(slot));
  HCTR_CHECK(plan.state == LookupPlan::State::Submitted, owner_,
             ": this slot has no plan to confirm");
  plan.state = LookupPlan::State::Empty;
  try {
    plan.looked_up->synchronize();
    if (check) check();
    take_numbers(plan);
    begin_rows(plan);
  } catch (...) {
    for (TablePlan& own : plan.tables) own.pin.reset();
    // Whoever has read the rows that go has done so before their numbers go to others.
    gpu_.compute_stream().synchronize();
    undo(plan);
    throw;
  }
  plan.state = LookupPlan::State::Planned;
}

void DeviceLookup::make_room_for_next(PlanSlot slot) {
  // Little beside a device's memory, or beside a table.
  constexpr std::size_t kLittle = std::size_t{1} << 30, kShare = 16;
  if (!keeps_order()) return;  // however much there is
  const LookupPlan& plan = plans_.at(at(slot));
  std::size_t bytes = 0;
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    bytes += plan.tables[t].key_count() * parts_[t].rows.spec().row_parts().row_bytes();
  }
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    Table& rows = parts_[t].rows;
    const std::size_t keys = plan.tables[t].key_count();
    if (bytes <= kLittle || keys <= rows.size() / kShare) rows.make_room_for_next(keys);
  }
}

}  // namespace hugectr
