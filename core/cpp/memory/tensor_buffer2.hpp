// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "core/cpp/base/device_id.hpp"
#include "core/cpp/base/export.hpp"

namespace hugectr {

/// What a Tensor2 shares ownership of: a piece of some arena or of growable memory.
class HCTR_API TensorBuffer2 {
 public:
  virtual ~TensorBuffer2();
  virtual bool allocated() const = 0;
  virtual void* get_ptr() = 0;
  virtual DeviceId device() const = 0;
  /// Where the address is kept to which offset() is added, null while there is none, for who would
  /// not ask this object each time; null where that can not be.
  virtual void* const* base() const { return nullptr; }
  virtual std::size_t offset() const { return 0; }
};

/// Where a buffer is, for tensors that are asked often: a plan of a hundred tables looks at some
/// thousand, each of which would be two objects elsewhere in memory.
class BufferPlace {
 public:
  BufferPlace() = default;
  explicit BufferPlace(const TensorBuffer2& buffer)
      : base_(buffer.base()), offset_(buffer.offset()), device_(buffer.device()) {}

  DeviceId device() const { return device_; }
  void* get_ptr(TensorBuffer2& buffer) const {
    if (!base_) return buffer.get_ptr();
    return *base_ ? static_cast<char*>(*base_) + offset_ : nullptr;
  }

 private:
  void* const* base_ = nullptr;
  std::size_t offset_ = 0;
  DeviceId device_;
};

}  // namespace hugectr
