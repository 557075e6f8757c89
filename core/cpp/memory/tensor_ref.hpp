// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "core/cpp/base/device_id.hpp"
#include "core/cpp/base/error.hpp"
#include "core/cpp/base/scalar_type.hpp"
#include "core/cpp/base/shape.hpp"

namespace hugectr {

/// Non-owning, type-erased view that ops take by value.
///
/// Dimension 0 is the row (the sample, for activations). Rows lie `row_stride` elements apart and
/// are contiguous inside; row_stride > row_size() means a view of columns of a wider tensor, which
/// is how Concat and Slice cost nothing. Every op honours row_stride unless its header asks for
/// contiguous().
struct TensorRef {
  void* data = nullptr;
  TensorScalarType dtype = TensorScalarType::None;
  DeviceId device;
  Shape shape;
  std::size_t row_stride = 0;  ///< elements between the starts of two rows
  int id = -1;                 ///< symbolic tensor of a StepSchedule before binding; else -1

  bool empty() const { return dtype == TensorScalarType::None; }
  std::size_t size() const { return empty() ? 0 : num_elements(shape); }
  std::size_t size_in_bytes() const { return size() * size_of(dtype); }
  std::size_t rows() const { return shape.empty() ? 1 : shape[0]; }
  /// Elements of one row.
  std::size_t row_size() const {
    std::size_t n = 1;
    for (std::size_t i = 1; i < shape.size(); ++i) n *= shape[i];
    return n;
  }
  bool contiguous() const { return row_stride == row_size() || rows() <= 1; }

  /// Typed pointer to the first element; throws InvalidArgument when T is not the dtype.
  template <class T>
  T* ptr() const {
    if (ScalarTypeOf<T>::value != dtype) throw_other_dtype(ScalarTypeOf<T>::value);
    return static_cast<T*>(data);
  }
  /// Typed pointer to row r.
  template <class T>
  T* row(std::size_t r) const {
    return ptr<T>() + r * row_stride;
  }

 private:
  [[noreturn]] HCTR_API void throw_other_dtype(TensorScalarType wanted) const;
};

/// A contiguous view of memory the caller owns.
template <class T>
TensorRef make_ref(T* data, Shape shape, DeviceId device = DeviceId::host()) {
  TensorRef ref;
  ref.data = data;
  ref.dtype = ScalarTypeOf<T>::value;
  ref.device = device;
  ref.shape = std::move(shape);
  ref.row_stride = ref.row_size();
  return ref;
}

}  // namespace hugectr
