// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/cpp/data/staging_array.hpp"

namespace hugectr {

/// Records that lie one after the other in a Norm file, as bytes, and where each begins.
struct NormRange {
  /// Bytes behind the used ones that may be read, whatever they hold.
  static constexpr std::size_t kSlack = 32;

  NormRange() : bytes(make_host_memory_resource()) {}
  std::size_t rows() const { return begins.size() - 1; }

  StagingArray bytes;
  std::vector<std::size_t> begins{0};  ///< of the records in bytes, frames included, and the end
  std::shared_ptr<const std::string> path;
  std::uint64_t byte = 0;  ///< where the first one begins in the file
};

/// Ranges that go round: their memory is used again and not asked for anew with every range.
class NormRangePool : public std::enable_shared_from_this<NormRangePool> {
 public:
  /// A range of any content. It comes back when its last owner lets go of it, whenever that is.
  std::shared_ptr<NormRange> take();

 private:
  std::mutex mutex_;
  std::size_t made_ = 0;
  std::vector<std::unique_ptr<NormRange>> free_;  ///< the last one back goes out first: it is warm
};

}  // namespace hugectr
