// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hugectr {

/// Rows and keys of one table that devices ask each other for: of owner o by device r, for each of
/// M micro-batches. Who asks is a device's micro-batch m: number m * N + r.
class RequestCounts {
 public:
  /// `all`: (N, tables, 2, M * N), of which table `number`.
  RequestCounts(const std::int64_t* all, std::size_t devices, std::size_t micro_batches,
                std::size_t tables, std::size_t number)
      : first_(all + number * 2 * devices * micro_batches),
        devices_(devices),
        askers_(devices * micro_batches),
        stride_(tables * 2 * askers_) {}

  /// Whether every device could make its requests.
  bool complete() const {
    for (std::size_t owner = 0; owner < devices_; ++owner) {
      const std::int64_t* const counts = first_ + owner * stride_;
      if (std::any_of(counts, counts + 2 * askers_, [](auto n) { return n < 0; })) return false;
    }
    return true;
  }
  /// Of all micro-batches of a device.
  std::size_t rows(std::size_t owner, std::size_t device) const { return of_all(owner, 0, device); }
  std::size_t keys(std::size_t owner, std::size_t device) const { return of_all(owner, 1, device); }

  /// Rows, or keys, of an owner that each asks for.
  std::vector<std::size_t> rows_asked_of(std::size_t owner) const { return asked_of(owner, 0); }
  std::vector<std::size_t> keys_asked_of(std::size_t owner) const { return asked_of(owner, 1); }
  /// Rows, or keys, of every owner that the micro-batches of a device ask for, in the same order.
  std::vector<std::size_t> rows_given_to(std::size_t device) const { return given_to(device, 0); }
  std::vector<std::size_t> keys_given_to(std::size_t device) const { return given_to(device, 1); }
  /// Sum of f(r) over devices 0 .. last - 1.
  template <class F>
  std::size_t sum(std::size_t last, const F& f) const {
    std::size_t result = 0;
    for (std::size_t r = 0; r < last; ++r) result += f(r);
    return result;
  }

 private:
  std::size_t at(std::size_t owner, std::size_t kind, std::size_t asker) const {
    return static_cast<std::size_t>(first_[owner * stride_ + kind * askers_ + asker]);
  }
  std::size_t of_all(std::size_t owner, std::size_t kind, std::size_t device) const {
    std::size_t result = 0;
    for (std::size_t a = device; a < askers_; a += devices_) result += at(owner, kind, a);
    return result;
  }
  std::vector<std::size_t> asked_of(std::size_t owner, std::size_t kind) const {
    std::vector<std::size_t> result;
    for (std::size_t a = 0; a < askers_; ++a) result.push_back(at(owner, kind, a));
    return result;
  }
  std::vector<std::size_t> given_to(std::size_t device, std::size_t kind) const {
    std::vector<std::size_t> result;
    for (std::size_t a = device; a < askers_; a += devices_) {
      for (std::size_t owner = 0; owner < devices_; ++owner) result.push_back(at(owner, kind, a));
    }
    return result;
  }
  const std::int64_t* first_;
  std::size_t devices_, askers_, stride_;
};

}  // namespace hugectr
