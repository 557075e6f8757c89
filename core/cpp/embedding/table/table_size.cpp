// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/table_size.hpp"

#include <algorithm>

#include "core/cpp/embedding/table/cache_memory.hpp"
#include "core/cpp/embedding/table/cached_rows.hpp"
#include "core/cpp/embedding/table/disk_backing.hpp"
#include "core/cpp/embedding/table/row_tiers.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"

namespace hugectr {

TableSize size_of_table(const TableSpec& spec, std::size_t max_rows, std::size_t rows,
                        std::size_t keys, const std::shared_ptr<MemoryResource>& memory) {
  const std::size_t most = max_rows > 0 ? max_rows : kNoRow - 1;
  HCTR_CHECK(rows <= most, "embedding '", spec.name, "' is to have ", rows,
             " rows on a device and may have ", most);
  HashTable index(memory, spec.name, spec.key_type, most, spec.has_slots(), nullptr, spec.direct);
  index.make_places(rows, keys);
  TableSize size{.index = index.size_in_bytes()};
  const RowParts parts = spec.row_parts();
  const auto rows_of = [&](std::size_t count, std::size_t reserved) {
    GrowableRows arrays(*memory, memory->device(), spec.name, parts, reserved);
    arrays.grow_to(count);
    return arrays;
  };
  const std::size_t places =
      spec.memory.tiered() ? std::min(places_of_budget(spec.memory, parts), most) : most;
  if (places > 0) {
    const GrowableRows on_device = rows_of(std::min(rows, places), places);
    size.vectors = on_device.vector_bytes();
    size.states = on_device.size_in_bytes() - on_device.vector_bytes();
  }
  if (spec.life.keeps_scores()) {
    GrowableTensor scores(*memory, TensorScalarType::UInt64, 1, most, spec.name + " scores");
    scores.grow_to(rows);
    size.states += scores.size_in_bytes();
  }
  if (places == most) return size;
  const std::size_t on_host = host_places_of_budget(spec.memory, parts);
  const bool disk = on_host > 0 && on_host < most;
  size.host = disk ? rows_of(on_host, on_host).size_in_bytes() + on_host * kBytesBesideHostPlace +
                         rows * kIndexBytesOnHost
                   : rows_of(rows, most).size_in_bytes();
  if (places > 0) size.places = bytes_beside_places(*memory, rows, places, most, !disk);
  return size;
}

}  // namespace hugectr
