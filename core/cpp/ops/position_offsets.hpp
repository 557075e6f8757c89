// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// Row offsets of un-pooled slots: slot s has the positions starts[s] .. starts[s + 1] - 1 of a
/// sample, P of them in all, and each position is a bucket of its own. The slot's n keys lie in its
/// first n positions, in their order; those behind are empty. Keys beyond the positions of a slot,
/// which no reader lets pass, all lie in the last one.
///   out[i P + starts[s] + k] = min(row_offsets[i S + s] + k, row_offsets[i S + s + 1])
///   out[B P] = row_offsets[B S]
/// row_offsets (B S + 1) uint32; starts (S + 1) uint32, ascending from 0 to P; out (B P + 1)
/// uint32. Overwrites. Deterministic.
struct HCTR_API PositionOffsets {
  static constexpr const char* kName = "position_offsets";
  static constexpr const char* kSeveralName = "several_position_offsets";
  TensorRef row_offsets, starts, out;
  std::int64_t positions = 0;  ///< P

  void visit(OpVisitor& v) {
    v.tensor("row_offsets", Access::In, row_offsets);
    v.tensor("starts", Access::In, starts);
    v.tensor("out", Access::Out, out);
    v.attribute("positions", positions);
  }
  void check() const;
};

/// Element j of `out` but the last one: its slot is found by halving.
HCTR_HD inline std::uint32_t position_offset(const std::uint32_t* row_offsets,
                                             const std::uint32_t* starts, std::size_t slots,
                                             std::size_t positions, std::size_t j) {
  const std::size_t sample = j / positions;
  const auto position = static_cast<std::uint32_t>(j - sample * positions);
  std::size_t slot = 0, end = slots;  // starts[slot] <= position < starts[end]
  while (end - slot > 1) {
    const std::size_t middle = slot + (end - slot) / 2;
    if (starts[middle] <= position) {
      slot = middle;
    } else {
      end = middle;
    }
  }
  const std::uint32_t* const of_slot = row_offsets + sample * slots + slot;
  const std::uint32_t nth = position - starts[slot];
  return nth < of_slot[1] - of_slot[0] ? of_slot[0] + nth : of_slot[1];
}

}  // namespace hugectr
