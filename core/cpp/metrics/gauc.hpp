// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/metrics/entry.hpp"
#include "core/cpp/ops/gauc.hpp"

namespace hugectr::metrics {

struct Gauc : Fields<> {
  static constexpr const char* kName = "GAUC";
  static constexpr const char* kDoc =
      "mean over groups, such as users, of the AUC within the group, weighted by its samples; "
      "groups "
      "of one class are left out; groups are the values of the label Input.group_name";
  static constexpr bool kOfPositives = true;
  static constexpr bool kTakesGroups = true;

  static AnyOp value(const SampleArrays& samples, const TensorRef& value) {
    return hugectr::Gauc{.scores = samples.scores,
                         .labels = samples.labels,
                         .weights = samples.weights,
                         .groups = samples.groups,
                         .gauc = value};
  }
};

}  // namespace hugectr::metrics
