// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/cpp/base/export.hpp"
#include "core/cpp/base/random.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// Units of one row that one run of neighbouring counters serves: every counter gives 8 numbers of
/// 16 bits, number h of counter c goes to unit (c / 16) * 128 + h * 16 + c % 16. So 16 neighbours
/// (vector lanes, threads of a warp) always touch 16 neighbouring units.
inline constexpr std::size_t kDropoutLanes = 16;
inline constexpr std::size_t kDropoutBlock = 8 * kDropoutLanes;

/// Key of a layer's masks in one step.
HCTR_HD inline std::uint64_t dropout_key(std::uint64_t seed, std::int64_t layer,
                                         std::int64_t step) {
  return mix_key(mix_key(seed, static_cast<std::uint64_t>(layer)),
                 static_cast<std::uint64_t>(step));
}

/// A unit is dropped when its 16 bits are below this: the rate is rounded to 1 / 65536.
HCTR_HD inline std::uint32_t dropout_threshold(double rate) {
  return static_cast<std::uint32_t>(rate * 65536.0 + 0.5);
}

/// y = x / (1 - rate) for kept units, 0 for dropped ones.
///
/// x, y: float32, float16 or bfloat16, of one shape, rows may be strided; rows_per_sample rows in a
/// line are one sample's. step: (1) int64, first_sample: (1) int64, the global number of the first
/// sample. What is dropped depends on (seed, layer, step, global number of the row, unit in the
/// row) only: not on the device count, and backward draws the same mask again instead of reading
/// one. 0 <= rate < 1. Overwrites y, which may be x. Deterministic.
struct HCTR_API DropoutFwd {
  static constexpr const char* kName = "dropout_fwd";
  static constexpr std::string_view k16BitFields = "x y";
  TensorRef x, step, first_sample, y;
  double rate = 0.5;
  std::uint64_t seed = 0;
  std::int64_t layer = 0;
  std::int64_t rows_per_sample = 1;
  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensor("step", Access::In, step);
    v.tensor("first_sample", Access::In, first_sample);
    v.tensor("y", Access::Out, y);
    v.attribute("rate", rate);
    v.attribute("seed", seed);
    v.attribute("layer", layer);
    v.attribute("rows_per_sample", rows_per_sample);
  }
  void check() const;
};

/// dx = dy / (1 - rate) for units that DropoutFwd with the same attributes kept, else 0.
///
/// dy, dx as x, y of DropoutFwd; overwrites dx, which may be dy. Deterministic.
struct HCTR_API DropoutBwd {
  static constexpr const char* kName = "dropout_bwd";
  static constexpr std::string_view k16BitFields = "dy dx";
  TensorRef dy, step, first_sample, dx;
  double rate = 0.5;
  std::uint64_t seed = 0;
  std::int64_t layer = 0;
  std::int64_t rows_per_sample = 1;
  void visit(OpVisitor& v) {
    v.tensor("dy", Access::In, dy);
    v.tensor("step", Access::In, step);
    v.tensor("first_sample", Access::In, first_sample);
    v.tensor("dx", Access::Out, dx);
    v.attribute("rate", rate);
    v.attribute("seed", seed);
    v.attribute("layer", layer);
    v.attribute("rows_per_sample", rows_per_sample);
  }
  void check() const;
};

}  // namespace hugectr
