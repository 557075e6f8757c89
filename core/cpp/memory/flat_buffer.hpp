// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "core/cpp/base/device_id.hpp"
#include "core/cpp/base/scalar_type.hpp"
#include "core/cpp/memory/tensor_ref.hpp"

namespace hugectr {

/// One-dimensional memory of an arena, as views of it are made of: a TensorBag2 in a quarter of its
/// bytes, which does not keep its arena. A plan of a hundred tables looks at some thousand of them,
/// and waits for memory as often.
///
/// Empty until its arena is allocated (GeneralBuffer2::reserve), and good as long as that is there.
class FlatBuffer {
 public:
  FlatBuffer() = default;
  FlatBuffer(void* data, std::size_t size, TensorScalarType dtype, DeviceId device)
      : data_(data), size_(size), device_(device), dtype_(dtype) {}

  std::size_t size() const { return size_; }
  std::size_t size_in_bytes() const { return size_ * size_of(dtype_); }
  void* data() const { return data_; }
  TensorRef ref() const { return dtype_ == TensorScalarType::None ? TensorRef{} : first(size_); }
  /// The first n elements, (n).
  TensorRef first(std::size_t n) const {
    TensorRef ref;
    ref.data = data_;
    ref.dtype = dtype_;
    ref.device = device_;
    ref.shape.resize(1, n);
    ref.row_stride = 1;
    return ref;
  }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
  DeviceId device_;
  TensorScalarType dtype_ = TensorScalarType::None;
};

}  // namespace hugectr
