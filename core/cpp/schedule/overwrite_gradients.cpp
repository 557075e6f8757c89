// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <utility>

#include "core/cpp/ops/linear.hpp"
#include "core/cpp/ops/regularizer.hpp"
#include "core/cpp/schedule/passes.hpp"

namespace hugectr {

void overwrite_gradients(StepSchedule& schedule) {
  const auto& tensors = schedule.tensors();
  std::set<int> written;
  for (OpRecord& record : schedule.records()) {
    // It writes all gradients at once, through the tensor that they are parts of.
    if (record.op.get_if<RegularizerGrad>() != nullptr) return;
    const auto is_first = [&](const TensorRef& ref) {
      return ref.empty() ||
             (ref.id >= 0 && written.count(ref.id) == 0 &&
              tensors[static_cast<std::size_t>(ref.id)].role == TensorRole::External);
    };
    if (const auto* linear = record.op.get_if<LinearBwd>()) {
      LinearBwd first = *linear;
      first.overwrite = is_first(first.dw) && is_first(first.db);
      first.overwrite_below = is_first(first.db_below);
      record.op = first;
    }
    std::as_const(record.op).for_each_tensor([&](const char*, Access access, const TensorRef& ref) {
      if (access != Access::In) written.insert(ref.id);
    });
  }
}

}  // namespace hugectr
