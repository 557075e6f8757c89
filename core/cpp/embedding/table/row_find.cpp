// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/row_find.hpp"

#include "core/cpp/memory/general_buffer2.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"

namespace hugectr {

std::vector<std::uint32_t> find_rows(Table& table, const std::vector<std::int64_t>& keys,
                                     const std::vector<std::uint32_t>& slots) {
  const std::size_t n = keys.size();
  if (n == 0) return {};
  const OpContext context = table.gpu().plan_context();
  const auto arena = DeviceBuffer2::create(table.owner() + " rows to find",
                                           DeviceAllocator(table.gpu().memory_resource()));
  const TensorBag2 on_device = arena->reserve({n}, table.spec().key_type, "keys");
  const TensorBag2 buckets = arena->reserve({n}, TensorScalarType::UInt32, "slots");
  const TensorBag2 rows = arena->reserve({n}, TensorScalarType::UInt32, "rows");
  arena->allocate();
  const std::size_t bytes = n * sizeof(std::uint32_t);
  std::vector<std::uint32_t> found(n);
  with_key_type(table.spec().key_type, [&]<class Key>(Key) {
    std::vector<Key> narrow(n);
    for (std::size_t i = 0; i < n; ++i) narrow[i] = static_cast<Key>(keys[i]);
    context.stream->copy(on_device.get_ptr(), narrow.data(), n * sizeof(Key));
    if (!slots.empty()) context.stream->copy(buckets.get_ptr(), slots.data(), bytes);
    // A slot is its own bucket here.
    const SlotOfBucket slot_of{static_cast<std::uint32_t>(table.spec().slot_num), 1, 0};
    table.find(context, on_device.ref(), buckets.ref(), slot_of, rows.ref());
    context.stream->copy(found.data(), rows.get_ptr(), bytes);
    context.stream->synchronize();
  });
  return found;
}

}  // namespace hugectr
