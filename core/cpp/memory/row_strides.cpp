// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/memory/row_strides.hpp"

namespace hugectr {

std::vector<std::int64_t> element_strides(const TensorRef& ref) {
  std::vector<std::int64_t> strides(ref.shape.size(), 1);
  for (std::size_t i = ref.shape.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * static_cast<std::int64_t>(ref.shape[i]);
  }
  if (!strides.empty()) strides[0] = static_cast<std::int64_t>(ref.row_stride);
  return strides;
}

std::size_t row_stride_of(const Shape& shape, const std::vector<std::int64_t>& strides,
                          const char* what) {
  TensorRef packed;
  packed.dtype = TensorScalarType::UInt8;
  packed.shape = shape;
  packed.row_stride = packed.row_size();
  if (strides.empty() || packed.size() == 0) return packed.row_stride;
  HCTR_CHECK(strides.size() == shape.size(), what, ": ", strides.size(), " strides for ",
             shape.size(), " dimensions");
  const std::vector<std::int64_t> wanted = element_strides(packed);
  for (std::size_t i = 1; i < shape.size(); ++i) {
    HCTR_CHECK(shape[i] == 1 || strides[i] == wanted[i], what, ": dimension ", i, " of shape ",
               to_string(shape), " has stride ", strides[i], ", must have ", wanted[i],
               ": only dimension 0 may be strided; make a contiguous copy first");
  }
  if (packed.rows() <= 1) return packed.row_stride;
  HCTR_CHECK(strides[0] >= wanted[0], what, ": rows of ", wanted[0], " elements lie ", strides[0],
             " apart: they must not overlap; make a contiguous copy first");
  return static_cast<std::size_t>(strides[0]);
}

}  // namespace hugectr
