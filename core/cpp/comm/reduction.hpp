// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <vector>

#include "core/cpp/base/scalar_type.hpp"

namespace hugectr {

/// True for the dtypes that can be summed: float32, float64, float16, bfloat16, int64, int32,
/// uint32.
bool can_sum(TensorScalarType type);

/// Elements [begin, end) of every target become the sum over sources, taken in the order given.
/// A target may be one of the sources. 16-bit numbers are summed in float32 and rounded once.
void sum_range(TensorScalarType type, const std::vector<const void*>& sources,
               const std::vector<void*>& targets, std::size_t begin, std::size_t end);

}  // namespace hugectr
