// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/row_load.hpp"

#include <algorithm>

#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/ops/stamp_rows.hpp"

namespace hugectr {

void RowLoad::insert(const RowView& rows) {
  const std::size_t n = size_;
  GPUResource& gpu = table_.gpu();
  arena_ = DeviceBuffer2::create(table_.owner() + " rows to load",
                                 DeviceAllocator(gpu.memory_resource()));
  keys_ = arena_->reserve({n}, table_.spec().key_type, "keys");
  slots_ = arena_->reserve({n}, TensorScalarType::UInt32, "slots");
  rows_ = arena_->reserve({n}, TensorScalarType::UInt32, "rows");
  arena_->allocate();
  std::vector<std::uint32_t> slots(n);
  for (std::size_t i = 0; rows.slot_ids && i < n; ++i) {
    slots[i] = static_cast<std::uint32_t>(rows.slot_ids[place(i)]);
  }
  const OpContext context = gpu.plan_context();
  with_key_type(table_.spec().key_type, [&]<class Key>(Key) {
    std::vector<Key> keys(n);
    for (std::size_t i = 0; i < n; ++i) keys[i] = static_cast<Key>(rows.keys[place(i)]);
    context.stream->copy(keys_.get_ptr(), keys.data(), n * sizeof(Key));
    context.stream->copy(slots_.get_ptr(), slots.data(), n * sizeof(std::uint32_t));
    // A slot is its own bucket here: slot = 0 + bucket % slot_num * 1.
    const SlotOfBucket slot_of{static_cast<std::uint32_t>(table_.spec().slot_num), 1, 0};
    const auto result = table_.number(context, keys_.ref(), slots_.ref(), slot_of, rows_.ref());
    table_.make_room(result.rows);
  });
}

void RowLoad::prepare() {
  const OpContext context = table_.gpu().plan_context();
  // A key named twice takes its last row: the earlier ones are passed over. Rows of a part of a
  // large table lie near each other, so that what is kept here is as large as the part.
  targets_.resize(size_);
  context.stream->copy(targets_.data(), rows_.get_ptr(), size_ * sizeof(std::uint32_t));
  context.stream->synchronize();
  const auto [low, high] = std::minmax_element(targets_.begin(), targets_.end());
  const std::uint32_t lowest = size_ > 0 ? *low : 0;
  std::vector<bool> written(size_ > 0 ? *high - lowest + std::size_t{1} : 0, false);
  for (std::size_t i = size_; i-- > 0;) {
    const std::size_t at = targets_[i] - lowest;
    if (written[at]) {
      targets_[i] = kNoRow;
    } else {
      written[at] = true;
    }
  }
  transfer_ = std::make_unique<RowTransfer>(table_.gpu(), context, table_.owner(), targets_,
                                            source_, widest_part(table_.spec().vec_size),
                                            context.device.type != DeviceType::Cpu);
}

void RowLoad::undo() {
  const OpContext context = table_.gpu().plan_context();
  table_.take_back(context, before_);
  context.stream->synchronize();
}

void RowLoad::write(const RowView& rows, RowMark stamp) {
  const std::size_t last = table_.size();
  const OpContext context = table_.gpu().plan_context();
  const RowExtent extent = table_.begin_rows(context, before_, false);
  const RowArrays arrays = table_.store().whole(last);
  transfer_->write(rows.vectors, arrays.vectors);
  for (std::size_t s = 0; s < rows.states.size(); ++s) {
    transfer_->write(rows.states[s], arrays.states[s]);
  }
  if (!arrays.last_step.empty() && rows.last_step) {
    transfer_->write(rows.last_step, arrays.last_step);
  }
  context.stream->synchronize();
  if (stamp > 0 && size_ > 0) {
    const OpContext compute = table_.gpu().compute_context();
    run(compute, StampRows{.rows = rows_.ref(),
                           .stamps = table_.stamps(last),
                           .stamp = static_cast<std::int64_t>(stamp)});
    compute.stream->synchronize();
  }
  table_.show(extent);
}

}  // namespace hugectr
