// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/base/fields.hpp"

#include <cmath>

#include "core/cpp/base/error.hpp"

namespace hugectr {

float checked_field(const std::string& where, const Field& field, double value) {
  const auto number = static_cast<float>(value);
  HCTR_CHECK(std::isfinite(number) && number >= field.minimum && number < field.below, where,
             ": found ", value, ", allowed: a float32 number >= ", field.minimum,
             field.below == kUnbounded ? std::string() : concat(" and < ", field.below));
  return number;
}

}  // namespace hugectr
