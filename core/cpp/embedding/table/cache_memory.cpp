// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/cache_memory.hpp"

#include <algorithm>

#include "core/cpp/ops/row_cache.hpp"

namespace hugectr {
namespace {

constexpr auto kNumbers = TensorScalarType::UInt32;

/// A little more than asked for, so that batches of varying size settle soon.
std::size_t with_reserve(std::size_t n) { return n + n / 8 + 64; }

}  // namespace

PlaceMaps::PlaceMaps(MemoryResource& memory, const std::string& owner, std::size_t most_places,
                     std::size_t max_rows, bool swap)
    : place_of(memory, kNumbers, 1, max_rows, owner + " places of rows"),
      numbers(memory, kNumbers, 1, most_places, owner + " rows at places"),
      marks(memory, kNumbers, 1, most_places, owner + " marks of places") {
  if (swap) shifts = GrowableTensor(memory, kNumbers, 1, max_rows, owner + " homes of rows");
}

void PlaceMaps::grow_to(std::size_t rows, std::size_t places) {
  numbers.grow_to(places);
  marks.grow_to(places);
  if (shifts.max_rows() > 0) shifts.grow_to(rows);
  place_of.grow_to(rows);
}

void PlanPlaces::allocate(const std::shared_ptr<MemoryResource>& memory, const std::string& owner,
                          std::size_t key_count, std::size_t rows) {
  arena = DeviceBuffer2::create(owner + " places of a plan", DeviceAllocator(memory));
  of_keys = arena->reserve({with_reserve(key_count)}, kNumbers, "of keys");
  distinct = arena->reserve({with_reserve(rows)}, kNumbers, "of distinct rows");
  arena->allocate();
}

void MoveLists::allocate(const std::shared_ptr<MemoryResource>& memory, const std::string& owner,
                         std::size_t rows) {
  const std::size_t room = with_reserve(rows);
  arena = DeviceBuffer2::create(owner + " rows to move", DeviceAllocator(memory));
  missing = arena->reserve({room}, kNumbers, "missing rows");
  places = arena->reserve({room}, kNumbers, "their places");
  leaving = arena->reserve({room}, kNumbers, "rows that leave");
  coming = arena->reserve({room}, kNumbers, "rows that come");
  arena->allocate();
}

std::size_t bytes_beside_places(MemoryResource& memory, std::size_t rows, std::size_t places,
                                std::size_t max_rows, bool swap) {
  PlaceMaps maps(memory, "", places, max_rows, swap);
  maps.grow_to(rows, std::min(rows, places));
  return maps.size_in_bytes();
}

std::size_t bytes_of_staging(const std::shared_ptr<MemoryResource>& memory, std::size_t keys,
                             std::size_t plans) {
  PlanPlaces places;
  places.allocate(memory, "", keys, keys);
  MoveLists lists;
  lists.allocate(memory, "", keys);
  return plans * places.arena->size_in_bytes() + lists.arena->size_in_bytes();
}

CacheReportMemory::CacheReportMemory(GPUResource& gpu, const std::string& owner) {
  const std::string name = owner + " cache report";
  const auto arena = DeviceBuffer2::create(name, DeviceAllocator(gpu.memory_resource()));
  on_device = arena->reserve({CacheReport::kSize}, TensorScalarType::Int64, "report");
  arena->allocate();
  const auto staging = DeviceBuffer2::create(name, DeviceAllocator(gpu.staging_resource()));
  staging->reserve({CacheReport::kSize}, &on_host, "report");
  staging->allocate();
  Stream& stream = gpu.plan_stream();
  stream.fill_zero(on_device.get_ptr(), on_device.get_size_in_bytes());
  stream.synchronize();
}

FoundPlaces::FoundPlaces(const std::shared_ptr<MemoryResource>& memory, const std::string& owner,
                         std::size_t all_places)
    : arena(DeviceBuffer2::create(owner + " places to copy", DeviceAllocator(memory))) {
  places = arena->reserve({all_places}, kNumbers, "places");
  rows = arena->reserve({all_places}, kNumbers, "rows");
  arena->allocate();
}

OutOfMemory too_few_places(const std::string& table, DeviceId device, std::size_t needed,
                           std::size_t keys, std::size_t most_places, std::size_t row_bytes) {
  // What this batch needs would be too little for the next one.
  const std::size_t places = std::max(needed, 2 * keys);
  const std::size_t enough = places * (row_bytes + kBytesBesidePlace);
  std::string of_solver;
  if (most_places > 0) {
    const std::size_t percent = (100 * places + most_places - 1) / most_places;
    of_solver = concat(" (", percent,
                       " % of what it has: as much more of CreateSolver(memory=), "
                       "where it has a part of that)");
  }
  return OutOfMemory(concat("embedding '", table, "' on ", to_string(device), " needs ", needed,
                            " rows in device memory for this batch and those under way, and has "
                            "places for ",
                            most_places, ": give it Memory(device=) of at least ", enough,
                            " bytes, which hold any two batches of ", keys,
                            " keys there, as this one has", of_solver,
                            ", or use a smaller batch or more "
                            "devices"));
}

}  // namespace hugectr
