// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// overflow = 1 when an element of xs is infinite or not a number, else 0.
///
/// xs: any number of tensors of float32, float16 or bfloat16, mixed, rows may be strided;
/// overflow: (1) float32. Overwrites. Deterministic.
struct HCTR_API FindOverflow {
  static constexpr const char* kName = "find_overflow";
  std::vector<TensorRef> xs;
  TensorRef overflow;
  void visit(OpVisitor& v) {
    v.tensors("xs", Access::In, xs);
    v.tensor("overflow", Access::Out, overflow);
  }
  void check() const;
};

/// Where dynamic loss scaling begins and how far it goes. The rule (halve on overflow, double after
/// 2000 steps without) and the first scale are those in common use since Micikevicius et al.,
/// "Mixed Precision Training", ICLR 2018; the bounds keep a run without overflow, or with nothing
/// else, in range.
inline constexpr double kFirstDynamicLossScale = 65536.0;
inline constexpr double kLeastLossScale = 1.0;
inline constexpr double kGreatestLossScale = 16777216.0;
inline constexpr std::int64_t kGoodStepsToDouble = 2000;

/// What a step's gradients are multiplied by, and the loss scale of the next step:
///   overflow > 0: unscale = 0 (skip the step), skipped += 1, good = 0, dynamic: scale /= 2
///   else:         unscale = 1 / scale, good += 1; dynamic and good = interval: scale *= 2, good =
///   0
///
/// overflow: (1) float32, FindOverflow's flag, or the sum of all devices' flags. scale, unscale:
/// (1) float32; scale is that of the step just computed, and stays in [kLeastLossScale,
/// kGreatestLossScale] when it is dynamic. good, skipped: (1) int64. Deterministic.
struct HCTR_API LossScaleStep {
  static constexpr const char* kName = "loss_scale_step";
  TensorRef overflow, scale, unscale, good, skipped;
  bool dynamic = false;
  std::int64_t interval = kGoodStepsToDouble;
  void visit(OpVisitor& v) {
    v.tensor("overflow", Access::In, overflow);
    v.tensor("scale", Access::InOut, scale);
    v.tensor("unscale", Access::Out, unscale);
    v.tensor("good", Access::InOut, good);
    v.tensor("skipped", Access::InOut, skipped);
    v.attribute("dynamic", dynamic);
    v.attribute("interval", interval);
  }
  void check() const;
};

/// The rule above, on one thread.
HCTR_HD inline void loss_scale_step(bool overflow, bool dynamic, std::int64_t interval,
                                    float& scale, float& unscale, std::int64_t& good,
                                    std::int64_t& skipped) {
  unscale = overflow ? 0.0f : 1.0f / scale;
  skipped += overflow ? 1 : 0;
  good = overflow ? 0 : good + 1;
  if (!dynamic) return;
  if (overflow) {
    scale = scale * 0.5f < static_cast<float>(kLeastLossScale) ? static_cast<float>(kLeastLossScale)
                                                               : scale * 0.5f;
  } else if (good >= interval) {
    scale = scale * 2.0f > static_cast<float>(kGreatestLossScale)
                ? static_cast<float>(kGreatestLossScale)
                : scale * 2.0f;
    good = 0;
  }
}

}  // namespace hugectr
