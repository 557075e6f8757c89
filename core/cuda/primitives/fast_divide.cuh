// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace hugectr::cuda {

/// Division by a number known at launch: one multiplication for dividends below 2^31 (Granlund and
/// Montgomery, "Division by invariant integers using multiplication", PLDI 1994), a real division
/// beyond. Made on the host, used on the device.
class FastDivide {
 public:
  FastDivide() = default;
  /// A divisor of 0 (a tensor without elements) counts as 1.
  explicit FastDivide(std::size_t divisor) : divisor_(divisor == 0 ? 1 : divisor) {
    if (divisor_ == 1 || divisor_ >= kSmall) return;
    unsigned log = 1;  // the smallest with 2^log >= divisor
    while ((std::uint64_t{1} << log) < divisor_) ++log;
    const std::uint64_t power = std::uint64_t{1} << (31 + log);
    multiplier_ = static_cast<std::uint32_t>((power + divisor_ - 1) / divisor_);
    shift_ = log - 1;
  }

  __device__ std::size_t quotient(std::size_t n) const {
    if (divisor_ == 1) return n;
    if (n < kSmall && multiplier_ != 0) {
      return __umulhi(static_cast<std::uint32_t>(n), multiplier_) >> shift_;
    }
    return n / divisor_;
  }
  /// Sets `remainder`, returns the quotient.
  __device__ std::size_t divide(std::size_t n, std::size_t& remainder) const {
    const std::size_t q = quotient(n);
    remainder = n - q * divisor_;
    return q;
  }

 private:
  static constexpr std::size_t kSmall = std::size_t{1} << 31;
  std::size_t divisor_ = 1;
  std::uint32_t multiplier_ = 0;  ///< 0: divide
  std::uint32_t shift_ = 0;
};

}  // namespace hugectr::cuda
