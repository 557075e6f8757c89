// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <utility>
#include <vector>

#include "core/cpp/schedule/step_schedule.hpp"

namespace hugectr {

/// Indices of the records that read or write a tensor, by tensor id, in their order; one entry a
/// field, so that a record that takes a tensor twice is listed twice.
inline std::map<int, std::vector<std::size_t>> uses_of(const StepSchedule& schedule) {
  std::map<int, std::vector<std::size_t>> uses;
  for (std::size_t i = 0; i < schedule.records().size(); ++i) {
    schedule.records()[i].op.for_each_tensor([&](const char*, Access, const TensorRef& ref) {
      if (ref.id >= 0) uses[ref.id].push_back(i);
    });
  }
  return uses;
}

}  // namespace hugectr
