// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/cpp/base/crc32.hpp"

namespace hugectr {

/// CRC-32 of each chunk of a file that is written from its beginning to its end, as manifests of
/// checkpoints have them.
class ChunkSums {
 public:
  static constexpr std::size_t kChunkBytes = std::size_t{16} << 20;

  /// The next bytes of the file.
  void add(const std::byte* data, std::size_t bytes) {
    while (bytes > 0) {
      const std::size_t in_chunk = bytes_ % kChunkBytes;
      if (in_chunk == 0) sums_.push_back(0);
      const std::size_t n = std::min(bytes, kChunkBytes - in_chunk);
      sums_.back() = crc32(data, n, sums_.back());
      bytes_ += n;
      data += n;
      bytes -= n;
    }
  }
  std::uint64_t bytes() const { return bytes_; }
  const std::vector<std::uint32_t>& sums() const { return sums_; }

 private:
  std::uint64_t bytes_ = 0;
  std::vector<std::uint32_t> sums_;
};

}  // namespace hugectr
