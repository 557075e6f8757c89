// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <string_view>

#include "core/cpp/schedule/passes.hpp"

namespace hugectr {

bool fusion_enabled() {
  const char* value = std::getenv("HUGECTR_FUSE");
  return !value || std::string_view(value) != "0";
}

void optimize(StepSchedule& schedule) {
  if (fusion_enabled()) {
    fuse_linear_activation(schedule);
    split_linear_over_concat(schedule);
    fuse_linear_backward(schedule);
    overwrite_gradients(schedule);
    make_views(schedule);
    mark_padded_rows(schedule);
  }
  schedule.refresh_refs();
}

}  // namespace hugectr
