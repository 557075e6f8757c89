// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"
#include "core/cpp/ops/loops/wire_numbers.hpp"

namespace hugectr {

/// Vectors as the bytes they travel as between devices (wire_numbers.hpp).
///
/// x (n, d) float32, float16 or bfloat16, contiguous. y (n, wire_bytes(type, d)) uint8: of each
/// vector its scale (float32; none of BFloat16), its numbers, zeros up to a multiple of 4. step (1)
/// int64, or empty: rounded to nearest even. With it rounded up or down by chance, unbiased, by
/// (seed, stream, step, content of the vector, column) alone: not by where it lies, which may
/// change with the devices of a job and when it goes on from a checkpoint. A vector of Float16 or
/// Float8 with an infinity or a NaN becomes NaN. Overwrites y, no overlap. Deterministic.
struct HCTR_API WirePack {
  static constexpr const char* kName = "wire_pack";
  static constexpr const char* kSeveralName = "several_wire_pack";
  TensorRef x, step, y;
  WireType type = WireType::BFloat16;
  std::uint64_t seed = 0;
  std::int64_t stream = 0;

  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.optional("step", Access::In, step);
    v.tensor("y", Access::Out, y);
    v.attribute("type", type);
    v.attribute("seed", seed);
    v.attribute("stream", stream);
  }
  void check() const;
};

/// The inverse, added up over blocks: y[i] = sum over r of the vector that x[r * n + i] is.
///
/// x (blocks * n, wire_bytes(type, d)) uint8. y (n, d) float32, float16 or bfloat16, contiguous.
/// Sums are taken in float32 in the order of the blocks and rounded to nearest even at the end.
/// Overwrites y, no overlap. Deterministic.
struct HCTR_API WireUnpack {
  static constexpr const char* kName = "wire_unpack";
  static constexpr const char* kSeveralName = "several_wire_unpack";
  TensorRef x, y;
  WireType type = WireType::BFloat16;
  std::int64_t blocks = 1;

  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensor("y", Access::Out, y);
    v.attribute("type", type);
    v.attribute("blocks", blocks);
  }
  void check() const;
};

/// Key of the random bits of a stream in a step.
HCTR_HD inline std::uint64_t wire_key(std::uint64_t seed, std::int64_t stream, std::int64_t step) {
  return mix_key(mix_key(seed, static_cast<std::uint64_t>(stream)),
                 static_cast<std::uint64_t>(step));
}

}  // namespace hugectr
