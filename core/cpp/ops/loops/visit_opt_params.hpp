// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/device/op.hpp"
#include "core/cpp/optimizers/optimizers.hpp"

namespace hugectr {

/// Names the fields of all optimizers; an op takes them whatever its optimizer is.
inline void visit_opt_params(OpVisitor& v, OptParams& params) {
  v.attribute("optimizer", params.optimizer);
  v.attribute("update_type", params.update_type);
  OptParams::visit(params, [&](const Field& field, float& value) {
    double wide = value;
    v.attribute(field.name, wide);
    // Readers may visit one op from several threads: write only what changed.
    if (static_cast<float>(wide) != value) value = static_cast<float>(wide);
  });
}

}  // namespace hugectr
