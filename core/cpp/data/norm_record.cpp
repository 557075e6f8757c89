// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/norm_record.hpp"

#include <algorithm>

#include "core/cpp/base/error.hpp"

namespace hugectr {

std::uint8_t byte_sum(const std::uint8_t* p, std::size_t n) {
  // Eight sums side by side in the bytes of words: even and odd bytes apart, so nothing overflows
  // into a neighbour before the words are folded.
  constexpr std::uint64_t kEven = 0x00ff00ff00ff00ffull;
  std::uint64_t total = 0;
  while (n >= 8) {
    const std::size_t words = std::min<std::size_t>(n / 8, 128);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < words; ++i) {
      const auto word = load<std::uint64_t>(p + 8 * i);
      sum += (word & kEven) + ((word >> 8) & kEven);
    }
    total += (sum & 0xffff) + ((sum >> 16) & 0xffff) + ((sum >> 32) & 0xffff) + (sum >> 48);
    p += 8 * words;
    n -= 8 * words;
  }
  for (std::size_t i = 0; i < n; ++i) total += p[i];
  return static_cast<std::uint8_t>(total);
}

NormRecordShape::NormRecordShape(const InputLayout& layout, bool is_framed, std::size_t key_width)
    : framed(is_framed),
      key_bytes(key_width),
      float_bytes(4 * (layout.label_dim + layout.dense_dim)),
      min_payload(float_bytes + 4 * layout.total_slots()),
      max_payload(min_payload),
      total_slots(layout.total_slots()) {
  for (const SparseInput& input : layout.sparse) {
    Slots slots;
    slots.name = input.top_name;
    slots.count = input.slot_num;
    slots.most = input.max_feature_num();
    if (input.in_positions) slots.each = input.nnz_per_slot;
    slots.one_hot_allowed = slots.most >= slots.count;
    max_payload += slots.most * key_bytes;
    inputs.push_back(std::move(slots));
  }
}

namespace {

std::string describe_nnz(const NormRecordShape::Slots& slots, std::size_t slot, std::int32_t nnz,
                         std::size_t before) {
  if (!slots.each.empty() && nnz > slots.each[slot]) {
    return concat("nnz ", nnz, " in slot ", slot, " of '", slots.name, "', allowed are 0 to ",
                  slots.each[slot], " (its nnz_per_slot: its keys are not pooled)");
  }
  if (nnz > 0 && static_cast<std::size_t>(nnz) <= slots.most) {
    return concat("nnz ", nnz, " in slot ", slot, " of '", slots.name, "' makes ",
                  before + static_cast<std::size_t>(nnz), " keys in the sample, allowed are 0 to ",
                  slots.most, " (sum of nnz_per_slot)");
  }
  return concat("nnz ", nnz, " in slot ", slot, " of '", slots.name, "', allowed are 0 to ",
                slots.most, " (sum of nnz_per_slot)");
}

}  // namespace

NormWalk walk_payload(const NormRecordShape& shape, const std::uint8_t* p, std::size_t available,
                      bool describe) {
  using End = NormWalk::End;
  std::size_t at = shape.float_bytes;
  if (at > available) return {End::OutOfBytes, 0, {}};
  const std::size_t stride = 4 + shape.key_bytes;
  for (const NormRecordShape::Slots& slots : shape.inputs) {
    if (slots.one_hot_allowed && available - at >= slots.count * stride &&
        is_one_hot(p + at, slots.count, shape.key_bytes)) {
      at += slots.count * stride;
      continue;
    }
    std::size_t sum = 0;
    for (std::size_t s = 0; s < slots.count; ++s) {
      if (available - at < 4) return {End::OutOfBytes, at, {}};
      const auto nnz = load<std::int32_t>(p + at);
      const bool fits = nnz >= 0 && sum + static_cast<std::size_t>(nnz) <= slots.most &&
                        (slots.each.empty() || nnz <= slots.each[s]);
      if (!fits) {
        return {End::BadNnz, at, describe ? describe_nnz(slots, s, nnz, sum) : std::string()};
      }
      sum += static_cast<std::size_t>(nnz);
      const std::size_t bytes = 4 + static_cast<std::size_t>(nnz) * shape.key_bytes;
      if (available - at < bytes) return {End::OutOfBytes, at, {}};
      at += bytes;
    }
  }
  return {End::Complete, at, {}};
}

}  // namespace hugectr
