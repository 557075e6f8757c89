// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/memory/general_buffer2.hpp"
#include "core/cpp/memory/growable_tensor.hpp"

/// Device memory of a CachedPlans beside the places themselves; what plans of a model count too.
namespace hugectr {

/// What places take beside the parts of a row: the number of the row that lies there and a mark.
inline constexpr std::size_t kBytesBesidePlace = 2 * sizeof(std::uint32_t);

/// Which row is where: for each row its place, for each place its row and mark (ops/row_cache.hpp),
/// and where rows `swap` homes for each row its home. New rows have no place, and the home of their
/// number.
struct PlaceMaps {
  PlaceMaps(MemoryResource& memory, const std::string& owner, std::size_t most_places,
            std::size_t max_rows, bool swap);

  void grow_to(std::size_t rows, std::size_t places);
  std::size_t size_in_bytes() const {
    return place_of.size_in_bytes() + numbers.size_in_bytes() + marks.size_in_bytes() +
           shifts.size_in_bytes();
  }

  GrowableTensor place_of, numbers, marks;
  GrowableTensor shifts;  ///< nothing where homes are not swapped
};

/// A plan's keys and distinct rows as places.
struct PlanPlaces {
  bool hold(std::size_t key_count, std::size_t rows) const {
    return arena && key_count <= of_keys.get_num_elements() && rows <= distinct.get_num_elements();
  }
  void allocate(const std::shared_ptr<MemoryResource>& memory, const std::string& owner,
                std::size_t key_count, std::size_t rows);

  std::shared_ptr<DeviceBuffer2> arena;
  TensorBag2 of_keys, distinct;
  std::size_t rows = 0;  ///< of the plan, the first ones of `distinct`
};

/// Rows that are to come for a plan.
struct MoveLists {
  bool hold(std::size_t rows) const { return arena && rows <= missing.get_num_elements(); }
  void allocate(const std::shared_ptr<MemoryResource>& memory, const std::string& owner,
                std::size_t rows);

  std::shared_ptr<DeviceBuffer2> arena;
  TensorBag2 missing, places, leaving, coming;
  std::size_t count = 0;         ///< rows that are to come
  std::shared_ptr<Event> moved;  ///< move stream: has read them; null before the first time
};

/// A CacheReport (ops/row_cache.hpp) of the device, zeros at first, and what the host knows of it.
struct CacheReportMemory {
  CacheReportMemory(GPUResource& gpu, const std::string& owner);
  std::size_t told(std::size_t what) const {
    return static_cast<std::size_t>(on_host.get_ptr()[what]);
  }

  TensorBag2 on_device;
  Tensor2<std::int64_t> on_host;  ///< staging: as it was told last
};

/// Some of all `places`, and the rows there.
struct FoundPlaces {
  FoundPlaces(const std::shared_ptr<MemoryResource>& memory, const std::string& owner,
              std::size_t all_places);

  std::shared_ptr<DeviceBuffer2> arena;
  TensorBag2 places, rows;
  std::size_t count = 0;
};

/// Bytes of the device that say which of `rows` (at most max_rows) is at which place, and at which
/// home where they `swap` those.
std::size_t bytes_beside_places(MemoryResource& memory, std::size_t rows, std::size_t places,
                                std::size_t max_rows, bool swap);
/// Of a table whose plans under way need so many rows, the last of them for so many keys.
OutOfMemory too_few_places(const std::string& table, DeviceId device, std::size_t needed,
                           std::size_t keys, std::size_t most_places, std::size_t row_bytes);

/// Bytes of the device for staging plans of at most so many keys, of which `plans` are alive.
std::size_t bytes_of_staging(const std::shared_ptr<MemoryResource>& memory, std::size_t keys,
                             std::size_t plans);

}  // namespace hugectr
