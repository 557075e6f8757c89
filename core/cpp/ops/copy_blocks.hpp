// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "core/cpp/device/op.hpp"

namespace hugectr {

/// out[to[b] + i] = in[from[b] + i] for i < sizes[b], of each block b: how what lies by table is
/// brought into the order of processes, and back. Or, `whole`, all of in to the start of out:
/// without lists, which are most of what one of many small copies costs the host.
///
/// in, out: packed arrays of one dtype, any shape, may be one. from, to, sizes: in elements. Blocks
/// that are written overlap with none; what none of them has is left as it is. Deterministic.
struct HCTR_API CopyBlocks {
  static constexpr const char* kName = "copy_blocks";
  static constexpr const char* kSeveralName = "several_copy_blocks";
  TensorRef in, out;
  std::vector<std::int64_t> from, to, sizes;
  bool whole = false;

  void visit(OpVisitor& v) {
    v.tensor("in", Access::In, in);
    v.tensor("out", Access::InOut, out);
    v.attribute("from", from);
    v.attribute("to", to);
    v.attribute("sizes", sizes);
    v.attribute("whole", whole);
  }
  void check() const;
  std::size_t block_count() const { return whole ? 1 : sizes.size(); }
  struct Block {
    std::size_t from, to, size;  ///< in elements
  };
  Block block(std::size_t b) const {
    if (whole) return {0, 0, in.size()};
    return {static_cast<std::size_t>(from[b]), static_cast<std::size_t>(to[b]),
            static_cast<std::size_t>(sizes[b])};
  }
};

}  // namespace hugectr
