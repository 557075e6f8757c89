// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/schedule/step_schedule.hpp"

namespace hugectr {

/// Edge of the tiles that products of many small matrices are made of (batched_gemm.cu).
constexpr std::size_t kSmallTile = 32;

/// What a kernel reads, writes and multiplies.
struct KernelWork {
  std::size_t bytes = 0;
  double flops = 0.0;       ///< of its matrix product; 0: a pass over bytes
  double tile_flops = 0.0;  ///< of many small matrices: with edges up to whole tiles; 0: of one
};

/// What one record of a schedule asks of a device.
struct OpWork {
  std::string op, layer;
  bool in_16_bits = false;          ///< of its products
  std::vector<KernelWork> kernels;  ///< one after the other, as core/cuda has them
};

/// Of all records, in their order.
HCTR_API std::vector<OpWork> work_of(const StepSchedule& schedule);

}  // namespace hugectr
