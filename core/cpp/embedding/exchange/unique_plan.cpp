// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/exchange/unique_plan.hpp"

#include <algorithm>
#include <numeric>

#include "core/cpp/embedding/lookup/lookup_plan.hpp"

namespace hugectr {
namespace {

constexpr auto kPlanIndex = TensorScalarType::UInt32;

}  // namespace

std::size_t UniquePlan::total(const std::vector<std::size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

std::size_t RelayPlan::came_rows() const {
  return std::accumulate(came.begin(), came.end(), std::size_t{0});
}

std::size_t RelayPlan::handed_rows() const {
  return std::accumulate(handed.begin(), handed.end(), std::size_t{0});
}

void RelayPlan::reserve(const std::shared_ptr<MemoryResource>& memory, const std::string& owner,
                        std::size_t n) {
  const std::size_t size = std::max(keys, TablePlan::with_reserve(n));
  auto next = DeviceBuffer2::create(owner, DeviceAllocator(memory));
  rows = next->reserve({size}, kPlanIndex, "rows to hand on");
  places = next->reserve({size + 1}, kPlanIndex, "places of rows to hand on");
  order = next->reserve({size}, kPlanIndex, "places by row that came");
  run_offsets = next->reserve({size + 1}, kPlanIndex, "runs of rows that came");
  keys = 0;
  next->allocate();
  arena = std::move(next);
  keys = size;
}

void UniquePlan::reserve_owner(const std::shared_ptr<MemoryResource>& memory,
                               const std::string& owner, std::size_t n) {
  const std::size_t size = std::max(owner_keys, TablePlan::with_reserve(n));
  auto next = DeviceBuffer2::create(owner, DeviceAllocator(memory));
  next->reserve(size, kPlanIndex, &rows, "rows asked for");
  next->reserve(size + 1, kPlanIndex, &places, "places of rows asked for");
  owner_keys = 0;
  next->allocate();
  owner_arena = std::move(next);
  owner_keys = size;
}

void UniquePlan::reserve_asker(const std::shared_ptr<MemoryResource>& memory,
                               const std::string& owner, std::size_t n, std::size_t m) {
  const std::size_t size = std::max(asker_keys, TablePlan::with_reserve(n));
  const std::size_t buckets = std::max(asker_buckets, m);
  auto next = DeviceBuffer2::create(owner, DeviceAllocator(memory));
  next->reserve(size, kPlanIndex, &given_places, "place of each key's row");
  next->reserve(buckets + 1, kPlanIndex, &row_offsets, "row offsets of the device's samples");
  next->reserve(buckets, TensorScalarType::Float32, &scale, "scale of each bucket");
  next->reserve(size, kPlanIndex, &sorted_buckets, "sorted buckets of rows that came");
  next->reserve(size + 1, kPlanIndex, &run_offsets, "run offsets of rows that came");
  asker_keys = asker_buckets = 0;
  next->allocate();
  asker_arena = std::move(next);
  asker_keys = size;
  asker_buckets = buckets;
}

}  // namespace hugectr
