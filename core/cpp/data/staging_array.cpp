// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/staging_array.hpp"

#include <algorithm>
#include <cstring>

#include "core/cpp/base/error.hpp"

namespace hugectr {

void StagingArray::reserve(std::size_t bytes, bool keep) {
  if (bytes <= capacity_) return;
  HCTR_CHECK(resource_ != nullptr, "a staging array without a memory resource can not grow");
  // An eighth more than asked for: batches differ a little, and growing each time would be slow.
  const std::size_t capacity = bytes + bytes / 8;
  if (!keep && data_) {
    resource_->deallocate(data_, capacity_);
    data_ = nullptr;
    capacity_ = 0;
  }
  void* data = resource_->allocate(capacity, "data reader");
  if (data_) {
    std::memcpy(data, data_, capacity_);
    resource_->deallocate(data_, capacity_);
  }
  data_ = data;
  capacity_ = capacity;
}

}  // namespace hugectr
