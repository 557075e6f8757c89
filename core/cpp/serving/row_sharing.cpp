// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/serving/row_sharing.hpp"

#include <algorithm>

namespace hugectr {

bool RowSharing::next() {
  const std::lock_guard lock(mutex_);
  const int turn = turn_++;
  if (turn < kAlone) return false;
  if (turn < kAlone + kWaking + kShared) return true;
  if (turn == kAlone + kWaking + kShared) shares_ = wins_ >= kWins;
  if (turn == kAlone + kWaking + kShared + kStay) {
    turn_ = 1;  // this row is the first of a trial
    wins_ = 0;
    least_alone_ = Duration::max();
    return false;
  }
  return shares_;
}

void RowSharing::took(bool shared, Duration time) {
  const std::lock_guard lock(mutex_);
  if (!shared) {
    if (turn_ <= kAlone) least_alone_ = std::min(least_alone_, time);
  } else if (turn_ > kAlone + kWaking && turn_ <= kAlone + kWaking + kShared) {
    wins_ += time < least_alone_;
  }
}

}  // namespace hugectr
