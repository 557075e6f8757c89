// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include "core/cpp/device/op.hpp"
#include "core/cpp/memory/general_buffer2.hpp"

namespace hugectr {

/// What the `replica` exchange of a training batch needs to know on one device of a table that all
/// devices have. Part of a TablePlan: made on the plan stream, read on the compute stream.
///
/// Devices number the distinct rows of a batch alike, 0 .. distinct - 1, in the order in which they
/// come in it: numbers of rows in the table depend on timing and differ between devices.
struct ReplicaPlan {
  /// Buffers for n keys of this device's samples; no stream may use the old ones any more.
  void reserve(const std::shared_ptr<MemoryResource>& memory, const std::string& owner,
               std::size_t n);
  bool fits(std::size_t n) const { return arena && n <= keys; }

  // Buffers, once a plan slot.
  std::shared_ptr<DeviceBuffer2> arena;
  std::size_t keys = 0;
  TensorBag2 sorted_buckets, run_offsets;  ///< of this device's samples, by row
  TensorBag2 rows, run_count;              ///< of the runs
  TensorBag2 places;                       ///< number of each run's row in the batch

  // The present plan.
  bool used = false;
  std::size_t distinct = 0;   ///< rows of the batch
  std::size_t own = 0;        ///< of them those of this device's samples
  std::size_t own_keys = 0;   ///< keys of those samples
  std::size_t first_sum = 0;  ///< where its sums begin in memory of the exchange
  TensorRef run_scale;        ///< of the buckets of this device's samples; empty: 1
};

}  // namespace hugectr
