// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/stream.hpp"
#include "core/cpp/memory/tensor_ref.hpp"

namespace hugectr {

/// The elements of a tensor of float32, float16 or bfloat16 as floats, row after row; rows may be
/// strided. Waits for the stream. Throws InvalidArgument for other dtypes.
HCTR_API std::vector<float> float_values(Stream& stream, const TensorRef& ref);

/// Writes floats into such a tensor, rounded to its type, and waits. What lies between the rows
/// stays. Throws InvalidArgument unless the number of values fits.
HCTR_API void set_float_values(Stream& stream, const TensorRef& ref,
                               const std::vector<float>& values);

}  // namespace hugectr
