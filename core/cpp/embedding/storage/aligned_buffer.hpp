// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdlib>
#include <memory>

#include "core/cpp/base/error.hpp"

namespace hugectr {

/// Unit of files and addresses that goes past the page cache on any disk.
inline constexpr std::size_t kBlockBytes = 4096;

/// Bytes that begin on a block, as O_DIRECT asks for.
class AlignedBuffer {
 public:
  /// At least `bytes`; what was in it may be gone.
  std::byte* with(std::size_t bytes) {
    if (bytes > size_) {
      data_.reset();
      size_ = 0;
      void* data = nullptr;
      if (posix_memalign(&data, kBlockBytes, bytes) != 0) {
        throw OutOfMemory(concat("no host memory for ", bytes, " bytes of a file"));
      }
      data_.reset(static_cast<std::byte*>(data));
      size_ = bytes;
    }
    return data_.get();
  }

 private:
  struct Free {
    void operator()(void* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

}  // namespace hugectr
