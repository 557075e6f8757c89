// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hugectr {

/// Rows and keys of one table that devices ask each other for: of owner o by device r.
class RequestCounts {
 public:
  /// `all`: (N, tables, 2, N), of which table `number`.
  RequestCounts(const std::int64_t* all, std::size_t devices, std::size_t tables,
                std::size_t number)
      : first_(all + number * 2 * devices), devices_(devices), stride_(tables * 2 * devices) {}

  /// Whether every device could make its requests.
  bool complete() const {
    for (std::size_t owner = 0; owner < devices_; ++owner) {
      const std::int64_t* const counts = first_ + owner * stride_;
      if (std::any_of(counts, counts + 2 * devices_, [](auto n) { return n < 0; })) return false;
    }
    return true;
  }
  std::size_t rows(std::size_t owner, std::size_t asker) const { return at(owner, 0, asker); }
  std::size_t keys(std::size_t owner, std::size_t asker) const { return at(owner, 1, asker); }

  /// f(r) for every device.
  template <class F>
  std::vector<std::size_t> each(const F& f) const {
    std::vector<std::size_t> result(devices_);
    for (std::size_t r = 0; r < devices_; ++r) result[r] = f(r);
    return result;
  }
  /// Sum of f(r) over devices 0 .. last - 1.
  template <class F>
  std::size_t sum(std::size_t last, const F& f) const {
    std::size_t result = 0;
    for (std::size_t r = 0; r < last; ++r) result += f(r);
    return result;
  }

 private:
  std::size_t at(std::size_t owner, std::size_t kind, std::size_t asker) const {
    return static_cast<std::size_t>(first_[owner * stride_ + kind * devices_ + asker]);
  }
  const std::int64_t* first_;
  std::size_t devices_, stride_;
};

}  // namespace hugectr
