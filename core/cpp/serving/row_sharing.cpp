// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/serving/row_sharing.hpp"

#include <algorithm>

namespace hugectr {

RowSharing::Way RowSharing::next(bool somebody_awake) {
  const std::lock_guard lock(mutex_);
  if (alone_ > 0) {
    if (--alone_ > 0) return Way::Alone;
    waking_ = kWaking;
    return Way::Rouse;
  }
  if (somebody_awake) return Way::Shared;
  if (waking_ == 0) {
    rest();
  } else {
    --waking_;
  }
  return Way::Alone;
}

void RowSharing::shared(bool helped) {
  const std::lock_guard lock(mutex_);
  if (helped) {
    waking_ = 0;
    pause_ = kLeastRest;
  } else {
    rest();
  }
}

void RowSharing::rest() {
  alone_ = pause_;
  pause_ = std::min(2 * pause_, kMostRest);
}

}  // namespace hugectr
