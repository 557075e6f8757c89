// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/row_load.hpp"

#include <algorithm>
#include <utility>

#include "core/cpp/device/several.hpp"
#include "core/cpp/embedding/table/row_visit.hpp"
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
    if (const std::int64_t at = result.first_outside; at >= 0) {
      const auto i = static_cast<std::size_t>(at);
      throw InvalidArgument(concat("embedding '", table_.spec().name,
                                   "': the rows to load have key ",
                                   static_cast<std::int64_t>(keys[i]), " in slot ", slots[i],
                                   ", which slot_size_array does not allow: correct it, or use "
                                   "LocalizedSlotSparseEmbeddingHash, which takes any key"));
    }
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
                                            !table_.store().visited_on_host());
}

void RowLoad::undo() {
  const OpContext context = table_.gpu().plan_context();
  table_.take_back(context, before_);
  context.stream->synchronize();
}

void RowLoad::write_scores(const OpContext& context, const RowView& rows, std::int64_t step) {
  // Scores are in the device's memory, wherever rows lie.
  RowTransfer transfer(table_.gpu(), context, table_.owner(), targets_, source_,
                       sizeof(std::uint64_t), table_.gpu().device().type != DeviceType::Cpu);
  const TensorRef scores = table_.scores(table_.size());
  if (rows.scores) return transfer.write(rows.scores, scores);
  // At which time they were used, nobody knows.
  const auto now = table_.spec().life.timed()
                       ? std::uint64_t{0}
                       : std::min(static_cast<std::uint64_t>(step), kLastScoredStep);
  std::size_t last = size_;  // of those in whose places the transfer looks
  for (const std::size_t source : source_) last = std::max(last, source + 1);
  const std::vector<std::uint64_t> used(last, make_score(true, kOneUse, now));
  transfer.write(used.data(), scores);
}

void RowLoad::write_parts(RowTransfer& transfer, const RowView& rows,
                          const RowArrays& arrays) const {
  transfer.write(rows.vectors, arrays.vectors);
  for (std::size_t s = 0; s < rows.states.size(); ++s) {
    transfer.write(rows.states[s], arrays.states[s]);
  }
  if (!arrays.last_step.empty() && rows.last_step) {
    transfer.write(rows.last_step, arrays.last_step);
  }
}

void RowLoad::write_in_pieces(const OpContext& context, const RowView& rows) {
  const TensorRef reused = table_.reused_since(before_);
  std::vector<std::uint32_t> again(reused.empty() ? 0 : reused.size());
  if (!again.empty()) context.stream->copy(again.data(), reused.data, again.size() * 4);
  context.stream->synchronize();
  std::sort(again.begin(), again.end());
  const auto is_new = [&](std::uint32_t row) {
    return row != kNoRow &&
           (row >= before_.rows || std::binary_search(again.begin(), again.end(), row));
  };
  table_.first_births(context, before_);
  visit_in_pieces(
      table_.store(), context, table_.size(), targets_, RowUse::Write,
      [&](const VisitedPiece& piece) {
        std::vector<std::uint32_t> first;
        for (std::size_t i = piece.begin; i < piece.end; ++i) {
          if (is_new(targets_[i])) first.push_back(piece.rows[i - piece.begin]);
        }
        std::shared_ptr<DeviceBuffer2> arena;
        if (!first.empty()) {
          arena = DeviceBuffer2::create(table_.owner() + " new rows",
                                        DeviceAllocator(table_.gpu().memory_resource()));
          const TensorBag2 bag = arena->reserve({first.size()}, TensorScalarType::UInt32, "places");
          arena->allocate();
          const TensorRef places = bag.ref();
          context.stream->copy(places.data, first.data(), first.size() * 4);
          table_.first_states(context, places, piece.arrays);
        }
        const std::vector<std::size_t> source = piece.of(source_);
        RowTransfer transfer(table_.gpu(), context, table_.owner(), piece.rows, source,
                             widest_part(table_.spec().vec_size),
                             !table_.store().visited_on_host());
        write_parts(transfer, rows, piece.arrays);
        context.stream->synchronize();
      });
}

void RowLoad::write(const RowView& rows, RowMark stamp, std::int64_t step) {
  const std::size_t last = table_.size();
  const OpContext context = table_.gpu().plan_context();
  const RowExtent extent = table_.begin_rows();
  if (table_.store().in_place()) {
    table_.store().visit(context, last, targets_, RowUse::Write, [&](const VisitedRows& visited) {
      std::vector<EmbeddingInit> first_states;
      StagedRows where;
      where.arrays = visited.arrays;
      table_.first_content(before_, where, false, first_states);
      run_several(context, std::move(first_states));
      write_parts(*transfer_, rows, visited.arrays);
      context.stream->synchronize();
    });
  } else {
    write_in_pieces(context, rows);
  }
  if (table_.keeps_scores()) {
    write_scores(context, rows, step);
    context.stream->synchronize();
  }
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
