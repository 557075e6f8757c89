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
  sorted_buckets = next->reserve({size}, kIndex, "sorted buckets of own samples");
  run_offsets = next->reserve({size + 1}, kIndex, "run offsets of own samples");
  rows = next->reserve({size}, kIndex, "rows of own samples");
  places = next->reserve({size}, kIndex, "their numbers in the batch");
  run_count = next->reserve({1}, TensorScalarType::Int64, "run count of own samples");
  keys = 0;
  next->allocate();
  arena = std::move(next);
  keys = size;
}

}  // namespace hugectr
