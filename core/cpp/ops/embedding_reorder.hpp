// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cpp/device/op.hpp"

namespace hugectr {

/// Blocks as an all-to-all of slots leaves them -> vectors in slot order:
///   y[sample, slot] = block[slot % N][sample, slot / N]
///
/// blocks (b * S, d): for device r = 0 .. N-1 in turn (b, S_r, d), S_r slots of device r
/// (filter_keys.hpp). y (b, S, d), any row_stride. Both float32, float16 or bfloat16: bits are
/// moved. Overwrites y; no overlap. Deterministic. N = 1 is a copy into rows that need not be
/// contiguous.
struct HCTR_API EmbeddingReorderFwd {
  static constexpr const char* kName = "embedding_reorder_fwd";
  static constexpr const char* kSeveralName = "several_embedding_reorder_fwd";
  TensorRef blocks, y;
  std::int64_t device_count = 1;

  void visit(OpVisitor& v) {
    v.tensor("blocks", Access::In, blocks);
    v.tensor("y", Access::Out, y);
    v.attribute("device_count", device_count);
  }
  void check() const;
};

/// The inverse: block[slot % N][sample, slot / N] = dy[sample, slot]. Overwrites dblocks.
struct HCTR_API EmbeddingReorderBwd {
  static constexpr const char* kName = "embedding_reorder_bwd";
  static constexpr const char* kSeveralName = "several_embedding_reorder_bwd";
  TensorRef dy, dblocks;
  std::int64_t device_count = 1;

  void visit(OpVisitor& v) {
    v.tensor("dy", Access::In, dy);
    v.tensor("dblocks", Access::Out, dblocks);
    v.attribute("device_count", device_count);
  }
  void check() const;
};

}  // namespace hugectr
