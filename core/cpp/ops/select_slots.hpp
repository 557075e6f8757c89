// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// Picks slots of an embedding output and puts their vectors side by side.
///
///   y[b, i * d + j] = x[b, slots[i], j]
///
/// x: (b, S, d), float32, float16 or bfloat16. slots: k numbers in [0, S), any order, repetition
/// allowed. y: (b, k * d), of the dtype of x. Overwrites y; y does not overlap x. Deterministic.
struct HCTR_API SelectSlotsFwd {
  static constexpr const char* kName = "select_slots_fwd";
  static constexpr std::string_view k16BitFields = "x y";
  TensorRef x, y;
  std::vector<std::int64_t> slots;

  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensor("y", Access::Out, y);
    v.attribute("slots", slots);
  }
  void check() const;
};

/// dx[b, s, j] = sum over i with slots[i] == s of dy[b, i * d + j]; 0 for slots not picked.
/// Overwrites dx; dx does not overlap dy. Summed in the order of slots, in float32: deterministic.
/// CUDA rounds 16-bit sums after every fourth pick of one slot.
struct HCTR_API SelectSlotsBwd {
  static constexpr const char* kName = "select_slots_bwd";
  static constexpr std::string_view k16BitFields = "dy dx";
  TensorRef dy, dx;
  std::vector<std::int64_t> slots;

  void visit(OpVisitor& v) {
    v.tensor("dy", Access::In, dy);
    v.tensor("dx", Access::Out, dx);
    v.attribute("slots", slots);
  }
  void check() const;
};

}  // namespace hugectr
