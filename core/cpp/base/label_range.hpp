// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <limits>
#include <string>

namespace hugectr {

/// The labels that a loss is defined for, ends included; without a loss any finite number.
struct LabelRange {
  float least = std::numeric_limits<float>::lowest();
  float most = std::numeric_limits<float>::max();
  std::string loss;  ///< whose range it is; empty: nobody's

  bool has(float label) const { return label >= least && label <= most; }
};

}  // namespace hugectr
