// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// Numbers of keys of the slots of some samples of a batch:
///   lengths[i, s] = row_offsets[r + 1] - row_offsets[r],   r = first_row + i S + s
/// row_offsets (>= first_row + b S + 1) uint32; lengths (b, S) float32, any row_stride. Overwrites.
/// Deterministic.
struct HCTR_API SlotLengths {
  static constexpr const char* kName = "slot_lengths";
  TensorRef row_offsets, lengths;
  std::int64_t first_row = 0;

  void visit(OpVisitor& v) {
    v.tensor("row_offsets", Access::In, row_offsets);
    v.tensor("lengths", Access::Out, lengths);
    v.attribute("first_row", first_row);
  }
  void check() const;
};

}  // namespace hugectr
