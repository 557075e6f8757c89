// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/norm_range.hpp"

#include <utility>

namespace hugectr {

std::shared_ptr<NormRange> NormRangePool::take() {
  std::unique_ptr<NormRange> range;
  {
    const std::lock_guard lock(mutex_);
    // Whoever gives it back can not fail for want of room.
    if (free_.empty()) {
      free_.reserve(++made_);
    } else {
      range = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (!range) range = std::make_unique<NormRange>();
  const auto give_back = [pool = shared_from_this()](NormRange* used) {
    const std::lock_guard lock(pool->mutex_);
    pool->free_.emplace_back(used);
  };
  return {range.release(), give_back};
}

}  // namespace hugectr
