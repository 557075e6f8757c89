// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <utility>

#include "core/cpp/memory/memory_resource.hpp"

namespace hugectr {

/// Bytes of one memory resource that grow on demand and are reused batch after batch: staging (on
/// CUDA: pinned) memory of the chunks, device memory of the batches.
class StagingArray {
 public:
  StagingArray() = default;
  explicit StagingArray(std::shared_ptr<MemoryResource> resource)
      : resource_(std::move(resource)) {}
  StagingArray(StagingArray&& other) noexcept { swap(other); }
  StagingArray& operator=(StagingArray&& other) noexcept {
    swap(other);
    return *this;
  }
  ~StagingArray() {
    if (data_) resource_->deallocate(data_, capacity_);
  }

  /// Makes at least `bytes` usable. Content is kept only when keep is true (host memory only).
  HCTR_API void reserve(std::size_t bytes, bool keep = false);
  std::size_t capacity() const { return capacity_; }
  template <class T>
  T* as() {
    return static_cast<T*>(data_);
  }
  template <class T>
  const T* as() const {
    return static_cast<const T*>(data_);
  }

 private:
  void swap(StagingArray& other) noexcept {
    std::swap(resource_, other.resource_);
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
  }
  std::shared_ptr<MemoryResource> resource_;
  void* data_ = nullptr;
  std::size_t capacity_ = 0;
};

}  // namespace hugectr
