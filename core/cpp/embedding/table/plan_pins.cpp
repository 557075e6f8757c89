// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/plan_pins.hpp"

#include "core/cpp/ops/row_cache.hpp"

namespace hugectr {
namespace {

std::uint32_t mask_of(std::uint32_t bit) { return std::uint32_t{1} << bit; }

}  // namespace

PlanPins::Pins PlanPins::begin(Stream& stream, AwaitedEvents& awaited, std::size_t slot,
                               bool trains) {
  if (slot >= plans_.size()) plans_.resize(slot + 1);
  Pins pins;
  for (std::size_t other = 0; other < plans_.size(); ++other) {
    Plan& plan = plans_[other];
    if (other == slot) continue;
    const bool under_way = plan.pending && trains && other == last_training_;
    if (plan.holds || under_way) pins.live |= mask_of(plan.bit);
    if (!plan.pending || under_way) continue;
    awaited.await(stream, plan.released);
    plan.pending = false;
  }
  Plan& own = plans_[slot];
  own.holds = own.pending = false;
  own.trains = trains;
  own.bit = pins.bit = next_bit(pins.live);
  pins.live |= mask_of(own.bit);
  return pins;
}

/// Bits come round robin: the ranking of places clears those of plans that do not hold any more,
/// long before one of them is given again.
std::uint32_t PlanPins::next_bit(std::uint32_t live) {
  do {
    last_bit_ = (last_bit_ + 1) % CacheMark::kPins;
  } while (live & mask_of(last_bit_));
  return last_bit_;
}

void PlanPins::staged(std::size_t slot) {
  Plan& plan = plans_.at(slot);
  plan.holds = true;
  if (plan.trains) last_training_ = slot;
}

bool PlanPins::release(std::size_t slot, const std::shared_ptr<Event>& released) {
  if (slot >= plans_.size() || !plans_[slot].holds) return false;
  Plan& plan = plans_[slot];
  plan.released = released;
  plan.holds = false;
  plan.pending = true;
  return true;
}

std::uint32_t PlanPins::changing() const {
  std::uint32_t bits = 0;
  for (const Plan& plan : plans_) {
    if (plan.holds && plan.trains) bits |= mask_of(plan.bit);
  }
  return bits;
}

void PlanPins::wait_for_released(Stream& stream) {
  for (const Plan& plan : plans_) {
    if (plan.pending && plan.released) stream.wait(*plan.released);
  }
}

}  // namespace hugectr
