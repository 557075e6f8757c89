// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/cpp/base/stochastic_rounding.hpp"
#include "core/cpp/device/op.hpp"
#include "core/cpp/ops/loops/check_csr.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"

namespace hugectr {

/// By what an update rounds rows that are kept in bfloat16 (stochastic_rounding.hpp): the identity
/// of each row, the step and the column. Fields of the ops that update rows; empty for rows of
/// float32, which are not rounded.
struct RowRounding {
  TensorRef numbers;              ///< (count) uint32: of the i-th row to update, as keys know it
  TensorRef row_keys;             ///< (R) uint32 or int64, by number
  TensorRef row_slots;            ///< (R) uint32, where slots are part of identity; else empty
  std::int64_t first_column = 0;  ///< of the whole row, a multiple of 4, as in EmbeddingInit
  std::uint64_t seed = 0, table = 0;

  void visit(OpVisitor& v) {
    v.optional("numbers", Access::In, numbers);
    v.optional("row_keys", Access::In, row_keys);
    v.optional("row_slots", Access::In, row_slots);
    v.attribute("first_column", first_column);
    v.attribute("seed", seed);
    v.attribute("table", table);
  }

  /// Throws InvalidArgument unless weights are float32 (R, d), or bfloat16 and all is there to
  /// round `count` named rows by.
  void check(const char* op, const TensorRef& weights, std::size_t count) const {
    const bool rounded = weights.dtype == TensorScalarType::BFloat16;
    HCTR_CHECK((rounded || weights.dtype == TensorScalarType::Float32) &&
                   weights.shape.size() == 2 && weights.contiguous(),
               op, ": weights have shape ", to_string(weights.shape), " of ",
               to_string(weights.dtype), ", must be (rows, d) float32 or bfloat16");
    if (!rounded) return;
    HCTR_CHECK(!row_keys.empty(), op,
               ": weights in bfloat16 are rounded by row_keys, which are empty");
    with_key_type(row_keys.dtype, [](auto) {});
    check_array(op, "row_keys", row_keys, row_keys.dtype, row_keys.size());
    if (!row_slots.empty()) {
      check_array_at_least(op, "row_slots", row_slots, TensorScalarType::UInt32, row_keys.size());
    }
    if (count > 0) check_array_at_least(op, "numbers", numbers, TensorScalarType::UInt32, count);
    HCTR_CHECK(first_column >= 0 && first_column % 4 == 0, op, ": first_column ", first_column,
               " must be a multiple of 4");
  }
};

}  // namespace hugectr
