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
/// A device plans its own samples. It tells the others its distinct keys, in the order in which its
/// samples name them: numbers of rows in a table depend on timing and differ between devices. All
/// devices then have the same list, (N, most): device r's keys at r * most, gaps behind them.
struct ReplicaPlan {
  /// Buffers for n keys of this device's samples; no stream may use the old ones any more.
  void reserve(const std::shared_ptr<MemoryResource>& memory, const std::string& owner,
               std::size_t n);
  bool fits(std::size_t n) const { return arena && n <= keys; }
  /// Row offsets of a device's m buckets.
  void reserve_offsets(const std::shared_ptr<MemoryResource>& memory, const std::string& owner,
                       std::size_t m);
  bool offsets_fit(std::size_t m) const { return offsets_arena && m <= buckets; }

  // Buffers, once a plan slot.
  std::shared_ptr<DeviceBuffer2> arena, offsets_arena;
  std::size_t keys = 0, buckets = 0;
  FlatBuffer row_offsets;                     ///< of this device's samples, from 0 on
  FlatBuffer sorted_buckets, run_offsets;     ///< of this device's samples, by row
  FlatBuffer rows;                            ///< of the runs
  FlatBuffer places;                          ///< of each run's sum in `sent`
  std::shared_ptr<DeviceBuffer2> sums_arena;  ///< the first table's: of all tables of a plan slot
  TensorBag2 sums;

  // The present plan.
  bool used = false;
  std::size_t own = 0;       ///< distinct rows of this device's samples
  std::size_t own_keys = 0;  ///< keys of those samples
  std::size_t most = 0;      ///< distinct rows of the device's samples that have most
  std::size_t distinct = 0;  ///< rows of the batch
  bool added_up = false;     ///< sums of all devices come as one, else those of each
  TensorScalarType type = TensorScalarType::Float32;  ///< of what travels
  void* first_sum = nullptr;                          ///< of all tables whose sums are added up
  TensorRef own_sums;                                 ///< (own, d) by run
  TensorRef sent;      ///< (distinct, d), becomes the sum; or (most, d), by the list
  TensorRef received;  ///< (N * most, d), unless added up
};

}  // namespace hugectr
