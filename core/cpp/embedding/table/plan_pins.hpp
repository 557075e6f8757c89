// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "core/cpp/device/stream.hpp"
#include "core/cpp/embedding/table/awaited_events.hpp"

namespace hugectr {

/// Which plans hold their rows in their places, by slot: each has a bit that the marks of its
/// places carry (ops/row_cache.hpp).
///
/// A plan holds from staged() to release(), and the last training plan until the next one but it is
/// staged: its step may be under way, and staging does not wait for that. So who holds what depends
/// on the order of plans, not on how far steps have come.
class PlanPins {
 public:
  /// A plan that holds no more, whose bit may be on marks.
  struct Ended {
    std::size_t slot;
    std::uint32_t bit;
    bool staged;  ///< no: a part of its rows has the bit, and there is no list of them
  };
  struct Pins {
    std::uint32_t bit = 0;     ///< number of the plan's own
    std::uint32_t live = 0;    ///< a bit a plan that holds, its own among them
    std::vector<Ended> ended;  ///< since the last begin()
  };
  /// A plan is about to be staged in this slot: nothing holds by the former one. The stream waits
  /// for the steps of plans that do not hold any more.
  Pins begin(Stream& stream, AwaitedEvents& awaited, std::size_t slot, bool trains);
  /// It holds from now on.
  void staged(std::size_t slot);
  /// Its rows are free when the event, recorded behind who used them last, has come; null: now.
  /// False: it did not hold.
  bool release(std::size_t slot, const std::shared_ptr<Event>& released);

  std::uint32_t bit(std::size_t slot) const { return plans_.at(slot).bit; }
  bool trains(std::size_t slot) const { return plans_.at(slot).trains; }
  /// A bit for each training plan that is staged and not released: its rows may change any time.
  std::uint32_t changing() const;
  /// The stream waits for the steps of all plans that were released.
  void wait_for_released(Stream& stream);

 private:
  struct Plan {
    bool trains = false;
    bool holds = false;    ///< staged and not released
    bool pending = false;  ///< released, and nobody has waited for it in begin()
    bool marked = false;   ///< its bit may be on marks
    bool staged = false;   ///< all its rows have the bit
    std::uint32_t bit = 0;
    std::shared_ptr<Event> released;  ///< or null
  };
  std::uint32_t next_bit(const Pins& pins);
  void end(std::size_t slot, std::vector<Ended>& ended);

  std::deque<Plan> plans_;
  std::size_t last_training_ = SIZE_MAX;
  std::uint32_t last_bit_ = 0;
};

}  // namespace hugectr
