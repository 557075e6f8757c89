// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "core/cpp/base/error.hpp"
#include "core/cpp/memory/tensor_ref.hpp"

namespace hugectr {

/// A batch-major tensor as a matrix: all dimensions but the last count as rows. Rows of a tensor of
/// two dimensions may be strided; one of more dimensions lies without gaps.
struct Matrix {
  Matrix() = default;
  Matrix(const TensorRef& ref)  // NOLINT: a tensor is a matrix
      : data(ref.data),
        dtype(ref.dtype),
        columns(ref.shape.empty() ? 0 : ref.shape.back()),
        stride(ref.shape.size() == 2 ? ref.row_stride : columns) {
    rows = ref.shape.empty() ? 0 : 1;
    for (std::size_t i = 0; i + 1 < ref.shape.size(); ++i) rows *= ref.shape[i];
  }

  bool empty() const { return dtype == TensorScalarType::None; }
  /// Typed pointer to row r; throws InvalidArgument when T is not the dtype.
  template <class T = float>
  T* row(std::size_t r) const {
    HCTR_CHECK(ScalarTypeOf<T>::value == dtype, "matrix holds ", to_string(dtype), ", not ",
               to_string(ScalarTypeOf<T>::value));
    return static_cast<T*>(data) + r * stride;
  }
  template <class T = float>
  T* ptr() const {
    return empty() ? nullptr : row<T>(0);
  }

  void* data = nullptr;
  TensorScalarType dtype = TensorScalarType::None;
  std::size_t columns = 0, rows = 0;
  std::size_t stride = 0;  ///< elements between the starts of two rows
  /// Elements after the end of each row that belong to the matrix: zeros where it is read, free to
  /// be overwritten where it is written.
  std::size_t spare = 0;
};

}  // namespace hugectr
