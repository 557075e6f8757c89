// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cpp/device/op.hpp"

namespace hugectr {

/// The lists of a MoveRows for who moves its rows in two halves, gathered and scattered by the
/// device and copied by others. For i < count, where an empty list holds kNoRow alone:
///   leaves[i] = leaving[i], from[i] = places[i] where leaving[i] is a row, else kNoRow
///   comes[i] = coming[i], to[i] = places[i] where coming[i] is a row, else kNoRow
/// places, leaving, coming (>= count), leaves, comes, from, to (count) uint32. Overwrites.
struct HCTR_API ListMoves {
  static constexpr const char* kName = "list_moves";
  static constexpr const char* kSeveralName = "several_list_moves";
  TensorRef places, leaving, coming;
  TensorRef leaves, comes, from, to;
  std::int64_t count = 0;

  void visit(OpVisitor& v) {
    v.tensor("places", Access::In, places);
    v.optional("leaving", Access::In, leaving);
    v.optional("coming", Access::In, coming);
    v.tensor("leaves", Access::Out, leaves);
    v.tensor("comes", Access::Out, comes);
    v.tensor("from", Access::Out, from);
    v.tensor("to", Access::Out, to);
    v.attribute("count", count);
  }
  void check() const;
};

}  // namespace hugectr
