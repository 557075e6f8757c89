// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/comm/rendezvous.hpp"

#include "core/cpp/base/error.hpp"

namespace hugectr {

void Rendezvous::meet() {
  std::unique_lock lock(mutex_);
  if (!aborted_) {
    if (++waiting_ == ranks_) {
      waiting_ = 0;
      working_ = ranks_;
      ++meetings_;
      met_.notify_all();
      return;
    }
    const std::uint64_t meeting = meetings_;
    met_.wait(lock, [&] { return meetings_ != meeting || aborted_; });
    // A meeting that came about counts, even if the group was aborted right after: the others are
    // at work on this rank's buffers.
    if (meetings_ != meeting) return;
  }
  throw CommError(reason_);
}

void Rendezvous::part() noexcept {
  std::unique_lock lock(mutex_);
  if (--working_ == 0) {
    ++partings_;
    parted_.notify_all();
    return;
  }
  const std::uint64_t parting = partings_;
  parted_.wait(lock, [&] { return partings_ != parting; });
}

void Rendezvous::abort(const std::string& reason) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (aborted_) return;
    aborted_ = true;
    try {
      reason_ = "collective stopped: " + reason;
    } catch (...) {  // no memory for the text: the flag is what matters
    }
  }
  met_.notify_all();
}

void Rendezvous::renew() noexcept {
  const std::lock_guard lock(mutex_);
  aborted_ = false;
  reason_.clear();
  waiting_ = 0;  // ranks that the abort sent away have counted
}

}  // namespace hugectr
