// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <vector>

#include "core/cpp/ops/elementwise/relu.hpp"
#include "core/cpp/ops/linear.hpp"
#include "core/cpp/schedule/passes.hpp"
#include "core/cpp/schedule/uses.hpp"

namespace hugectr {

void fuse_linear_activation(StepSchedule& schedule) {
  auto& records = schedule.records();
  const auto uses = uses_of(schedule);
  std::vector<bool> gone(records.size(), false);

  // The one other record that touches tensor `id`; `producer` itself when there is not exactly one.
  const auto sole_user = [&](int id, std::size_t producer) -> std::size_t {
    const auto it = uses.find(id);
    if (it == uses.end() || it->second.size() != 2 || it->second[0] != producer) return producer;
    return it->second[1];
  };

  for (std::size_t i = 0; i < records.size(); ++i) {
    if (const auto* linear = records[i].op.get_if<LinearFwd>()) {
      // linear -> z -> relu -> y, z touched by nobody else: linear writes y itself.
      if (linear->activation != Activation::Non) continue;
      const std::size_t next = sole_user(linear->y.id, i);
      const auto* relu = records[next].op.get_if<ReluFwd>();
      if (next == i || !relu) continue;
      LinearFwd both = *linear;
      both.activation = Activation::Relu;
      both.y = relu->y;
      records[i].op = both;
      gone[next] = true;
    } else if (const auto* relu = records[i].op.get_if<ReluBwd>()) {
      // relu_bwd -> dz -> linear_bwd: linear_bwd masks dy itself and keeps dz as its scratch.
      const std::size_t next = sole_user(relu->dx.id, i);
      const auto* linear = records[next].op.get_if<LinearBwd>();
      if (next == i || !linear || linear->activation != Activation::Non) continue;
      LinearBwd both = *linear;
      both.activation = Activation::Relu;
      both.y = relu->y;
      both.dy = relu->dy;
      both.dz = relu->dx;
      records[next].op = both;
      gone[i] = true;
    }
  }
  std::vector<OpRecord> kept;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (!gone[i]) kept.push_back(std::move(records[i]));
  }
  records = std::move(kept);
}

}  // namespace hugectr
