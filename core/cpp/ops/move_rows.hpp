// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "core/cpp/device/op.hpp"

namespace hugectr {

/// Rows of several arrays change places, all parts of a row at once, bit for bit. For i < count,
/// both at once:
///   home[leaving[i]] = cache[places[i]]  where leaving[i] is a row
///   cache[places[i]] = home[coming[i]]   where coming[i] is one
/// places, leaving, coming (>= count) uint32; leaving and coming may be kNoRow, or empty: none.
/// Places are distinct; no row is twice in leaving and coming, but leaving[i] may be coming[i]: the
/// two are exchanged. cache: (P, w) each; home: (R, w) of the same dtype, as many. Home may be
/// memory of the host that the device reaches: each part is moved by neighbouring threads in units
/// of 16 bytes, both ways at the same time.
struct HCTR_API MoveRows {
  static constexpr const char* kName = "move_rows";
  static constexpr const char* kSeveralName = "several_move_rows";
  TensorRef places, leaving, coming;
  std::vector<TensorRef> cache, home;
  std::int64_t count = 0;

  void visit(OpVisitor& v) {
    v.tensor("places", Access::In, places);
    v.optional("leaving", Access::In, leaving);
    v.optional("coming", Access::In, coming);
    v.tensors("cache", Access::InOut, cache);
    v.tensors("home", Access::InOut, home);
    v.attribute("count", count);
  }
  void check() const;
};

}  // namespace hugectr
