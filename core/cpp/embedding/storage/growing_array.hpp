// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>

#include "core/cpp/memory/memory_resource.hpp"

namespace hugectr {

/// Plain numbers in host memory that grow without moving; those nobody wrote are zero.
template <class T>
class GrowingArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  GrowingArray(std::size_t most, const std::string& owner)
      : most_(most),
        resource_(make_host_memory_resource()),
        memory_(resource_->reserve_growable(most * sizeof(T), owner)) {}

  /// Throws OutOfMemory. Grows by an eighth at least, so that growing one by one costs little.
  void grow_to(std::size_t count) {
    if (count <= size_) return;
    const std::size_t generous = std::max(count, std::min(most_, size_ + size_ / 8));
    memory_->grow(generous * sizeof(T));
    size_ = std::min(most_, memory_->size() / sizeof(T));
  }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return memory_->size(); }
  T& operator[](std::size_t i) { return static_cast<T*>(memory_->data())[i]; }
  const T& operator[](std::size_t i) const { return static_cast<const T*>(memory_->data())[i]; }
  /// The number at i, zero beyond the end.
  T at(std::size_t i) const { return i < size_ ? (*this)[i] : T{}; }

 private:
  std::size_t size_ = 0, most_ = 0;
  std::shared_ptr<MemoryResource> resource_;
  std::unique_ptr<GrowableMemory> memory_;
};

}  // namespace hugectr
