// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"

namespace hugectr {

/// Dimensions of a tensor, outermost first. Dimension 0 of an activation is the sample.
using Shape = std::vector<std::size_t>;

/// Product of the dimensions; 1 for a scalar (empty) shape.
HCTR_API std::size_t num_elements(const Shape& shape);

/// "(64, 26, 16)"
HCTR_API std::string to_string(const Shape& shape);

}  // namespace hugectr
