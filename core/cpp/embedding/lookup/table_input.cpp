// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/lookup/table_input.hpp"

#include <algorithm>
#include <utility>

#include "core/cpp/embedding/lookup/lookup_plan.hpp"
#include "core/cpp/ops/join_slots.hpp"

namespace hugectr {

std::size_t TableInput::slot_num() const {
  std::size_t slots = 0;
  for (const Part& part : parts) slots += part.slots;
  return slots;
}

void JoinedKeys::allocate(const std::shared_ptr<MemoryResource>& memory, const std::string& owner,
                          TensorScalarType key_type, std::size_t keys, std::size_t rows) {
  const std::size_t key_room = std::max(key_capacity_, TablePlan::with_reserve(keys));
  const std::size_t row_room = std::max(row_capacity_, rows);
  auto next = DeviceBuffer2::create(owner, DeviceAllocator(memory));
  keys_ = next->reserve({key_room}, key_type, "keys of all inputs");
  row_offsets_ = next->reserve({row_room + 1}, TensorScalarType::UInt32, "their row offsets");
  key_capacity_ = row_capacity_ = 0;
  next->allocate();
  arena_ = std::move(next);
  key_capacity_ = key_room;
  row_capacity_ = row_room;
}

SparseTensor JoinedKeys::join(const OpContext& context,
                              const std::shared_ptr<MemoryResource>& memory,
                              const std::string& owner, const TableInput& input,
                              std::span<const SparseTensor> batch) {
  const SparseTensor& first = batch[input.parts.front().input];
  if (!input.joins()) return first;
  const std::size_t samples = (first.row_offsets.size() - 1) / input.parts.front().slots;
  const std::size_t rows = samples * input.slot_num();
  JoinSlots op{.samples = static_cast<std::int64_t>(samples)};
  std::size_t count = 0;
  for (const TableInput::Part& part : input.parts) {
    const SparseTensor& csr = batch[part.input];
    op.keys.push_back(csr.keys);
    op.keys.back().shape = {csr.nnz};
    op.keys.back().row_stride = 1;
    op.row_offsets.push_back(csr.row_offsets);
    count += csr.nnz;
  }
  if (!arena_ || count > key_capacity_ || rows > row_capacity_) {
    context.stream->synchronize();
    allocate(memory, owner, first.keys.dtype, count, rows);
  }
  op.joined_keys = keys_.first(count);
  op.joined_row_offsets = row_offsets_.first(rows + 1);
  const SparseTensor joined{op.joined_keys, op.joined_row_offsets, count};
  run(context, op);
  return joined;
}

}  // namespace hugectr
