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
    if (plan.holds || under_way) {
      pins.live |= mask_of(plan.bit);
    } else {
      end(other, pins.ended);
    }
    if (!plan.pending || under_way) continue;
    awaited.await(stream, plan.released);
    plan.pending = false;
  }
  Plan& own = plans_[slot];
  end(slot, pins.ended);
  own.holds = own.pending = own.staged = false;
  own.marked = true;
  own.trains = trains;
  own.bit = pins.bit = next_bit(pins);
  pins.live |= mask_of(own.bit);
  return pins;
}

void PlanPins::end(std::size_t slot, std::vector<Ended>& ended) {
  Plan& plan = plans_[slot];
  if (plan.marked) ended.push_back({slot, plan.bit, plan.staged});
  plan.marked = false;
}

/// Bits come round robin, past those that are still on marks, of plans that hold or have just ended
/// (where there are others).
std::uint32_t PlanPins::next_bit(const Pins& pins) {
  std::uint32_t taken = pins.live;
  for (const Ended& plan : pins.ended) taken |= mask_of(plan.bit);
  if (taken == mask_of(CacheMark::kPins) - 1) taken = pins.live;
  do {
    last_bit_ = (last_bit_ + 1) % CacheMark::kPins;
  } while (taken & mask_of(last_bit_));
  return last_bit_;
}

void PlanPins::staged(std::size_t slot) {
  Plan& plan = plans_.at(slot);
  plan.holds = plan.staged = true;
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
