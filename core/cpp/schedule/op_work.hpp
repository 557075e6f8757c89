// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/schedule/step_schedule.hpp"

namespace hugectr {

/// What one record of a schedule asks of a device, whatever device that is.
struct OpWork {
  std::string op, layer;
  std::size_t bytes = 0;    ///< of all its tensors, each once
  double flops = 0.0;       ///< of its matrix products; others are bound by bytes
  bool in_16_bits = false;  ///< of its products
};

/// Of all records, in their order.
HCTR_API std::vector<OpWork> work_of(const StepSchedule& schedule);

}  // namespace hugectr
