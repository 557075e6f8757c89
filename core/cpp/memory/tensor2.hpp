// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/scalar_type.hpp"
#include "core/cpp/base/shape.hpp"
#include "core/cpp/memory/tensor_buffer2.hpp"
#include "core/cpp/memory/tensor_ref.hpp"

namespace hugectr {

/// Type-erased Tensor2: dimensions, dtype and the shared buffer.
class TensorBag2 {
 public:
  TensorBag2() = default;
  TensorBag2(Shape dimensions, TensorScalarType scalar_type, std::shared_ptr<TensorBuffer2> buffer)
      : dimensions_(std::move(dimensions)), scalar_type_(scalar_type), buffer_(std::move(buffer)) {
    if (buffer_) place_ = BufferPlace(*buffer_);
  }

  const Shape& get_dimensions() const { return dimensions_; }
  TensorScalarType get_scalar_type() const { return scalar_type_; }
  std::size_t get_num_elements() const { return buffer_ ? num_elements(dimensions_) : 0; }
  std::size_t get_size_in_bytes() const { return get_num_elements() * size_of(scalar_type_); }
  bool allocated() const { return buffer_ && buffer_->allocated(); }
  void* get_ptr() const { return buffer_ ? place_.get_ptr(*buffer_) : nullptr; }
  const std::shared_ptr<TensorBuffer2>& buffer() const { return buffer_; }

  /// Contiguous non-owning view for ops.
  TensorRef ref() const {
    TensorRef r;
    if (!buffer_) return r;
    r.data = place_.get_ptr(*buffer_);
    r.dtype = scalar_type_;
    r.device = place_.device();
    r.shape = dimensions_;
    r.row_stride = r.row_size();
    return r;
  }
  /// The first n elements, (n).
  TensorRef first(std::size_t n) const {
    TensorRef r;
    if (buffer_) {
      r.data = place_.get_ptr(*buffer_);
      r.dtype = scalar_type_;
      r.device = place_.device();
    }
    r.shape.resize(1, n);
    r.row_stride = 1;
    return r;
  }

 private:
  Shape dimensions_;
  TensorScalarType scalar_type_ = TensorScalarType::None;
  std::shared_ptr<TensorBuffer2> buffer_;
  BufferPlace place_;
};

/// Dense tensor: dimensions and a shared TensorBuffer2. An empty one owns nothing.
template <class T>
class Tensor2 {
 public:
  Tensor2() = default;
  Tensor2(Shape dimensions, std::shared_ptr<TensorBuffer2> buffer)
      : dimensions_(std::move(dimensions)), buffer_(std::move(buffer)) {
    if (buffer_) place_ = BufferPlace(*buffer_);
  }

  /// The typed view of a bag; throws InvalidArgument ("Inconsistent tensor type ...") when the
  /// bag holds another dtype.
  static Tensor2 stretch_from(const TensorBag2& bag) {
    HCTR_CHECK(bag.get_scalar_type() == ScalarTypeOf<T>::value,
               "Inconsistent tensor type: bag holds ", to_string(bag.get_scalar_type()),
               ", asked for ", to_string(ScalarTypeOf<T>::value));
    return Tensor2(bag.get_dimensions(), bag.buffer());
  }
  TensorBag2 shrink() const { return {dimensions_, ScalarTypeOf<T>::value, buffer_}; }

  /// Same memory under other dimensions of the same element count.
  void reset_shape(const Shape& dimensions) {
    HCTR_CHECK(num_elements(dimensions) == num_elements(dimensions_), "can not see ",
               to_string(dimensions_), " as ", to_string(dimensions));
    dimensions_ = dimensions;
  }

  const Shape& get_dimensions() const { return dimensions_; }
  std::size_t get_num_elements() const { return buffer_ ? num_elements(dimensions_) : 0; }
  std::size_t get_size_in_bytes() const { return get_num_elements() * sizeof(T); }
  bool allocated() const { return buffer_ && buffer_->allocated(); }
  T* get_ptr() { return static_cast<T*>(address()); }
  const T* get_ptr() const { return static_cast<const T*>(address()); }
  TensorRef ref() const {
    if (!buffer_) return {};
    return make_ref(static_cast<T*>(address()), dimensions_, place_.device());
  }

 private:
  void* address() const { return buffer_ ? place_.get_ptr(*buffer_) : nullptr; }

  Shape dimensions_;
  std::shared_ptr<TensorBuffer2> buffer_;
  BufferPlace place_;
};

template <class T>
using Tensors2 = std::vector<Tensor2<T>>;

}  // namespace hugectr
