// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/exchange/replica_plan.hpp"

#include <algorithm>

#include "core/cpp/embedding/lookup/lookup_plan.hpp"

namespace hugectr {

void ReplicaPlan::reserve(const std::shared_ptr<MemoryResource>& memory, const std::string& owner,
                          std::size_t n) {
  constexpr auto kIndex = TensorScalarType::UInt32;
  const std::size_t size = std::max(keys, TablePlan::with_reserve(n));
  auto next = DeviceBuffer2::create(owner, DeviceAllocator(memory));
  next->reserve(size, kIndex, &sorted_buckets, "sorted buckets of own samples");
  next->reserve(size + 1, kIndex, &run_offsets, "run offsets of own samples");
  next->reserve(size, kIndex, &rows, "rows of own samples");
  next->reserve(size, kIndex, &places, "places of their sums");
  keys = 0;
  next->allocate();
  arena = std::move(next);
  keys = size;
}

void ReplicaPlan::reserve_offsets(const std::shared_ptr<MemoryResource>& memory,
                                  const std::string& owner, std::size_t m) {
  const std::size_t size = std::max(buckets, m);
  auto next = DeviceBuffer2::create(owner, DeviceAllocator(memory));
  next->reserve(size + 1, TensorScalarType::UInt32, &row_offsets, "row offsets of own samples");
  buckets = 0;
  next->allocate();
  offsets_arena = std::move(next);
  buckets = size;
}

}  // namespace hugectr
