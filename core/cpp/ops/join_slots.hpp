// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// Sparse inputs of the same B samples as one that has the slots of all, those of an input side by
/// side, in the order of the inputs (first(k): slots of the inputs before k; S: all of them):
///   row (i, first(k) + s) of the result = row (i, s) of input k, key by key
///
/// keys[k] (n_k) uint32 or int64, all of one type; row_offsets[k] (B * S_k + 1) uint32 from 0 to
/// n_k. joined_keys (>= the sum of n_k); joined_row_offsets (B * S + 1) uint32. Overwrites.
/// Deterministic.
struct HCTR_API JoinSlots {
  static constexpr const char* kName = "join_slots";
  std::vector<TensorRef> keys, row_offsets;
  TensorRef joined_keys, joined_row_offsets;
  std::int64_t samples = 0;  ///< B

  void visit(OpVisitor& v) {
    v.tensors("keys", Access::In, keys);
    v.tensors("row_offsets", Access::In, row_offsets);
    v.tensor("joined_keys", Access::Out, joined_keys);
    v.tensor("joined_row_offsets", Access::Out, joined_row_offsets);
    v.attribute("samples", samples);
  }
  void check() const;
};

/// One input as kernels read it.
struct JoinedInput {
  const std::uint32_t* offsets;
  const void* keys;
  std::size_t slots, first_slot;
};
/// All of them.
HCTR_API std::vector<JoinedInput> joined_inputs(const JoinSlots& op);

/// Where the keys of a sample's slot begin in the result: behind all of earlier samples, and of
/// this one those of the inputs before and of the slots before.
HCTR_HD inline std::uint32_t joined_offset(const JoinedInput* inputs, std::size_t count,
                                           std::size_t input, std::size_t sample,
                                           std::size_t slot) {
  std::uint32_t at = 0;
  for (std::size_t k = 0; k < count; ++k) {
    const JoinedInput& one = inputs[k];
    at += one.offsets[(sample + (k < input ? 1 : 0)) * one.slots + (k == input ? slot : 0)];
  }
  return at;
}

}  // namespace hugectr
