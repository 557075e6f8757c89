// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/lookup/lookup_plan.hpp"

#include <algorithm>

namespace hugectr {
void TablePlan::allocate(const std::shared_ptr<MemoryResource>& memory, const std::string& owner,
                         std::size_t n, std::size_t bucket_count, bool sorted,
                         bool with_candidates) {
  const std::size_t keys = std::max(key_capacity, with_reserve(n));
  const std::size_t bucket_max = std::max(bucket_capacity, bucket_count);
  auto next = DeviceBuffer2::create(owner, DeviceAllocator(memory));
  constexpr auto kU32 = TensorScalarType::UInt32;
  next->reserve(keys, kU32, &buckets, "bucket of each key");
  next->reserve(keys, kU32, &rows, "row of each key");
  next->reserve(bucket_max, TensorScalarType::Float32, &scale, "scale of each bucket");
  if (sorted) {
    next->reserve(keys, kU32, &sorted_buckets, "sorted buckets");
    next->reserve(keys, kU32, &unique_rows, "unique rows");
    next->reserve(keys + 1, kU32, &run_offsets, "run offsets");
    next->reserve(1, TensorScalarType::Int64, &run_count, "run count");
    next->reserve(2 * keys, TensorScalarType::UInt64, &scratch, "sort scratch");
    if (with_candidates) next->reserve(keys, kU32, &candidates, "rows that are not admitted");
  }
  key_capacity = bucket_capacity = 0;
  next->allocate();
  arena = std::move(next);
  key_capacity = keys;
  bucket_capacity = bucket_max;
}

void TablePlan::allocate_filter(const std::shared_ptr<MemoryResource>& memory,
                                const std::string& owner, TensorScalarType key_type, std::size_t n,
                                std::size_t bucket_count, bool with_places) {
  const std::size_t keys = std::max(filter_key_capacity, with_reserve(n));
  const std::size_t bucket_max = std::max(filter_bucket_capacity, bucket_count);
  auto next = DeviceBuffer2::create(owner, DeviceAllocator(memory));
  next->reserve(keys, key_type, &own_keys, "own keys");
  next->reserve(bucket_max + 1, TensorScalarType::UInt32, &own_row_offsets, "own row offsets");
  if (with_places) next->reserve(keys, TensorScalarType::UInt32, &own_places, "own places");
  filter_key_capacity = filter_bucket_capacity = 0;
  next->allocate();
  filter_arena = std::move(next);
  filter_key_capacity = keys;
  filter_bucket_capacity = bucket_max;
}

void TablePlan::allocate_times(const std::shared_ptr<MemoryResource>& memory,
                               const std::string& owner, std::size_t samples) {
  auto next = DeviceBuffer2::create(owner, DeviceAllocator(memory));
  next->reserve(samples, TensorScalarType::UInt32, &times, "times");
  next->allocate();
  times_arena = std::move(next);
}

}  // namespace hugectr
