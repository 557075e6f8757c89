// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cpp/base/export.hpp"

namespace hugectr {

/// What has been handed to streams so far, in this process: for who wants to know how many times a
/// step does so.
struct WorkCounts {
  std::uint64_t ops = 0;          ///< ops, several at once counted as one
  std::uint64_t collectives = 0;  ///< collectives, those that travel together counted as one
  std::uint64_t launches = 0;     ///< kernels, without those that libraries launch
};

HCTR_API WorkCounts work_counts();
HCTR_API void count_op() noexcept;
HCTR_API void count_collective() noexcept;
HCTR_API void count_launch() noexcept;

}  // namespace hugectr
