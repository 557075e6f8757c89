// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <memory>
#include <vector>

#include "core/cpp/device/stream.hpp"

namespace hugectr {

/// What a stream waits for while a plan is staged: tables share most events, and each is waited for
/// once.
class AwaitedEvents {
 public:
  /// Null: there is nothing to wait for.
  void await(Stream& stream, const std::shared_ptr<Event>& event) {
    if (!event || std::ranges::find(awaited_, event.get()) != awaited_.end()) return;
    stream.wait(*event);
    awaited_.push_back(event.get());
  }

 private:
  std::vector<const Event*> awaited_;
};

}  // namespace hugectr
