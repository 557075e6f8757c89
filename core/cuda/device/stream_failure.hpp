// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <mutex>
#include <string>

namespace hugectr::cuda {

/// Why the collectives of a group will not give a result; shared by the group and the streams that
/// carry its work. The GPU itself reports nothing: an aborted collective just ends.
class StreamFailure {
 public:
  /// The first text stays. Returns whether this was it.
  bool set(const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (failed_) return false;
    failed_ = true;
    text_ = text;
    return true;
  }
  bool failed() const {
    const std::lock_guard lock(mutex_);
    return failed_;
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  bool failed_ = false;
  std::string text_;
};

}  // namespace hugectr::cuda
