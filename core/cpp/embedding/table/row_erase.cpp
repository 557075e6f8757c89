// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/row_erase.hpp"

#include <algorithm>

#include "core/cpp/embedding/table/row_find.hpp"
#include "core/cpp/embedding/table/row_transfer.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"

namespace hugectr {

FoundRows rows_to_erase(Table& table, const std::vector<std::int64_t>& keys,
                        const std::vector<std::uint32_t>& slots) {
  std::vector<std::uint32_t> found = find_rows(table, keys, slots);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  if (!found.empty() && found.back() == kNoRow) found.pop_back();
  if (found.empty()) return {};
  const OpContext context = table.gpu().plan_context();
  FoundRows result;
  result.memory = DeviceBuffer2::create(table.owner() + " rows to erase",
                                        DeviceAllocator(table.gpu().memory_resource()));
  const TensorBag2 rows = result.memory->reserve({found.size()}, TensorScalarType::UInt32, "rows");
  result.memory->allocate();
  context.stream->copy(rows.get_ptr(), found.data(), rows.get_size_in_bytes());
  context.stream->synchronize();
  result.rows = rows.ref();
  return result;
}

RowIdentities identities_of(const Table& table, const TensorRef& rows) {
  const OpContext context = table.gpu().plan_context();
  const std::size_t n = rows.size(), last = table.state().rows;
  std::vector<std::uint32_t> numbers(n);
  context.stream->copy(numbers.data(), rows.data, rows.size_in_bytes());
  context.stream->synchronize();
  const std::vector<std::size_t> in_order;
  RowTransfer transfer(table.gpu(), context, table.owner(), numbers, in_order, sizeof(std::int64_t),
                       table.gpu().device().type != DeviceType::Cpu);
  RowIdentities found;
  with_key_type(table.spec().key_type, [&]<class Key>(Key) {
    std::vector<Key> keys(n);
    transfer.read(table.index().row_keys(last), keys.data());
    found.keys.assign(keys.begin(), keys.end());
  });
  if (!table.spec().has_slots()) return found;
  found.slots.resize(n);
  transfer.read(table.index().row_slots(last), found.slots.data());
  return found;
}

}  // namespace hugectr
