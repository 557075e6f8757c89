// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/memory/tensor_ref.hpp"

/// Between the strides that other libraries give every dimension and the one of a TensorRef.
namespace hugectr {

/// Elements between neighbours along each dimension.
HCTR_API std::vector<std::int64_t> element_strides(const TensorRef& ref);

/// The row_stride of a tensor with these strides (in elements; none: packed). InvalidArgument,
/// beginning with `what`, unless rows are packed inside and follow each other forwards.
HCTR_API std::size_t row_stride_of(const Shape& shape, const std::vector<std::int64_t>& strides,
                                   const char* what);

}  // namespace hugectr
