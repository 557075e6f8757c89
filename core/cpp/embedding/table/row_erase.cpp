// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/row_erase.hpp"

#include <algorithm>

#include "core/cpp/embedding/table/row_find.hpp"
#include "core/cpp/memory/general_buffer2.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"

namespace hugectr {

std::size_t erase_rows(Table& table, const std::vector<std::int64_t>& keys,
                       const std::vector<std::uint32_t>& slots) {
  std::vector<std::uint32_t> found = find_rows(table, keys, slots);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  if (!found.empty() && found.back() == kNoRow) found.pop_back();
  if (found.empty()) return 0;
  const OpContext context = table.gpu().plan_context();
  const auto arena = DeviceBuffer2::create(table.owner() + " rows to erase",
                                           DeviceAllocator(table.gpu().memory_resource()));
  const TensorBag2 rows = arena->reserve({found.size()}, TensorScalarType::UInt32, "rows");
  arena->allocate();
  context.stream->copy(rows.get_ptr(), found.data(), rows.get_size_in_bytes());
  table.erase(rows.ref());
  return found.size();
}

}  // namespace hugectr
