// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <vector>

#include "core/cpp/ops/linear.hpp"
#include "core/cpp/schedule/passes.hpp"
#include "core/cpp/schedule/uses.hpp"

namespace hugectr {
namespace {

/// The upper product's dx is the lower one's dy and nothing else, and the relu between them made
/// the upper one's x: the upper product can mask its dx and sum its columns.
bool may_join(const LinearBwd& upper, const LinearBwd& lower) {
  return upper.below == Activation::Non && lower.activation == Activation::Relu &&
         lower.dy.id == upper.dx.id && lower.y.id == upper.x.id && lower.dz.id >= 0 &&
         upper.dx.shape == lower.dz.shape;
}

}  // namespace

void fuse_linear_backward(StepSchedule& schedule) {
  auto& records = schedule.records();
  const auto users = uses_of(schedule);
  for (std::size_t i = 0; i < records.size(); ++i) {
    const auto* upper = records[i].op.get_if<LinearBwd>();
    if (upper == nullptr || upper->dx.id < 0) continue;
    if (schedule.tensors()[static_cast<std::size_t>(upper->dx.id)].kept) continue;
    const std::vector<std::size_t>& touching = users.at(upper->dx.id);
    if (touching.size() != 2 || touching[0] != i) continue;
    const auto* lower = records[touching[1]].op.get_if<LinearBwd>();
    if (lower == nullptr || !may_join(*upper, *lower)) continue;

    LinearBwd above = *upper, below = *lower;
    above.below = Activation::Relu;
    above.dx = below.dz;  // what it holds now, under the name of what it holds
    above.db_below = std::exchange(below.db, {});
    above.partial_below = std::exchange(below.partial, {});
    below.dy = std::exchange(below.dz, {});
    below.y = {};
    below.activation = Activation::Non;
    records[i].op = above;
    records[touching[1]].op = below;
  }
}

}  // namespace hugectr
