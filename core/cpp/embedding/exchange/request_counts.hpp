// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/cpp/embedding/exchange/row_hop.hpp"

namespace hugectr {

/// Rows and keys of one table that are asked for in one hop: of every device, by each asker of M
/// micro-batches. Who asks is number m * askers + its own.
class RequestCounts {
 public:
  enum Kind : std::size_t { kRows, kKeys };

  /// `all`: (N, tables, 2, M * askers), of which table `number`.
  RequestCounts(const std::int64_t* all, const RowHop& hop, std::size_t micro_batches,
                std::size_t tables, std::size_t number)
      : first_(all + number * 2 * hop.askers() * micro_batches),
        hop_(hop),
        micro_batches_(micro_batches),
        askers_(hop.askers() * micro_batches),
        stride_(tables * 2 * askers_) {}

  /// Whether every device could make its requests.
  bool complete() const {
    for (std::size_t owner = 0; owner < hop_.ranks(); ++owner) {
      const std::int64_t* const counts = first_ + owner * stride_;
      if (std::any_of(counts, counts + 2 * askers_, [](auto n) { return n < 0; })) return false;
    }
    return true;
  }
  /// What `rank` sends to device r, and what it gets from it, in micro-batch m: number m * N + r.
  std::vector<std::size_t> sent(std::size_t rank, Kind kind) const {
    return for_each_partner(
        rank, [&](std::size_t, std::size_t number) { return std::pair{rank, number}; }, kind);
  }
  std::vector<std::size_t> came(std::size_t rank, Kind kind) const {
    return for_each_partner(
        rank,
        [&](std::size_t partner, std::size_t) { return std::pair{partner, hop_.number_of(rank)}; },
        kind);
  }
  /// The larger of what a device sends to others and gets from them.
  std::size_t moved(std::size_t rank, Kind kind) const {
    std::size_t to_others = 0, from_others = 0;
    for (std::size_t number = 0; number < hop_.askers(); ++number) {
      const std::size_t partner = hop_.partner(rank, number);
      if (partner == rank) continue;
      for (std::size_t first = 0; first < askers_; first += hop_.askers()) {
        to_others += at(rank, kind, first + number);
        from_others += at(partner, kind, first + hop_.number_of(rank));
      }
    }
    return std::max(to_others, from_others);
  }

 private:
  /// f(partner, its number): whose count for whom.
  template <class F>
  std::vector<std::size_t> for_each_partner(std::size_t rank, const F& f, Kind kind) const {
    std::vector<std::size_t> result(micro_batches_ * hop_.ranks());
    for (std::size_t m = 0; m < micro_batches_; ++m) {
      for (std::size_t number = 0; number < hop_.askers(); ++number) {
        const std::size_t partner = hop_.partner(rank, number);
        const auto [owner, asker] = f(partner, number);
        result[m * hop_.ranks() + partner] = at(owner, kind, m * hop_.askers() + asker);
      }
    }
    return result;
  }
  std::size_t at(std::size_t owner, std::size_t kind, std::size_t asker) const {
    return static_cast<std::size_t>(first_[owner * stride_ + kind * askers_ + asker]);
  }
  const std::int64_t* first_;
  const RowHop& hop_;
  std::size_t micro_batches_, askers_, stride_;
};

}  // namespace hugectr
