// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cpp/device/op.hpp"

namespace hugectr {

/// stamps[rows[i]] = stamp for i < count and rows[i] >= first; a row kNoRow is passed over.
/// rows (n) uint32, below R but for kNoRow; stamps (R) uint32; count (1) int64, empty: all n.
/// Overwrites the named stamps. Deterministic.
struct HCTR_API StampRows {
  static constexpr const char* kName = "stamp_rows";
  TensorRef rows, count, stamps;
  std::int64_t first = 0;  ///< 0 .. 2^32 - 1
  std::int64_t stamp = 0;  ///< 0 .. 2^32 - 1

  void visit(OpVisitor& v) {
    v.tensor("rows", Access::In, rows);
    v.optional("count", Access::In, count);
    v.tensor("stamps", Access::InOut, stamps);
    v.attribute("first", first);
    v.attribute("stamp", stamp);
  }
  void check() const;
};

}  // namespace hugectr
