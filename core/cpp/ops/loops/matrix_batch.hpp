// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "core/cpp/memory/tensor_ref.hpp"
#include "core/cpp/ops/loops/matrix.hpp"

namespace hugectr {

/// A tensor as matrices of its last two dimensions; those before them count them. Rows of a tensor
/// of two dimensions may be strided, and so may the samples of one of more.
struct MatrixBatch {
  MatrixBatch(const TensorRef& ref)  // NOLINT: a tensor is a batch of matrices
      : tensor(ref),
        rows(ref.shape[ref.shape.size() - 2]),
        columns(ref.shape.back()),
        stride(ref.shape.size() == 2 ? ref.row_stride : columns) {
    if (ref.shape.size() == 2) return;
    for (std::size_t i = 1; i + 2 < ref.shape.size(); ++i) per_sample *= ref.shape[i];
    count = ref.rows() * per_sample;
  }

  /// Elements before matrix i; a batch of one stands for every i.
  std::size_t offset(std::size_t i) const {
    if (count == 1) return 0;
    return i / per_sample * tensor.row_stride + i % per_sample * rows * columns;
  }
  Matrix at(std::size_t i) const {
    Matrix matrix;
    matrix.data = static_cast<char*>(tensor.data) + offset(i) * size_of(tensor.dtype);
    matrix.dtype = tensor.dtype;
    matrix.columns = columns;
    matrix.rows = rows;
    matrix.stride = stride;
    return matrix;
  }

  TensorRef tensor;
  std::size_t rows, columns, stride;
  std::size_t per_sample = 1, count = 1;
};

}  // namespace hugectr
