// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <mutex>

#include "core/cpp/base/export.hpp"

namespace hugectr {

/// Whether other threads get some of the work of single rows that are predicted one after another.
/// They save half of the products where a core is free for them, and cost a tenth where none is,
/// which nothing tells but time: so a few rows are predicted in each way now and then, and the next
/// ones in the way that was faster. Any thread may call; no result depends on it.
class HCTR_API RowSharing {
 public:
  using Duration = std::chrono::steady_clock::duration;

  /// Of a trial: rows without others' help, with it but before others are awake, and with it.
  static constexpr int kAlone = 8, kWaking = 4, kShared = 8;
  /// Shared ones that must be faster than all without help.
  static constexpr int kWins = 6;
  /// Rows from a trial to the next.
  static constexpr int kStay = 512;

  /// Whether the row that is predicted next is shared.
  bool next();
  /// How long it took; of several at once the order is of no matter.
  void took(bool shared, Duration time);

 private:
  std::mutex mutex_;
  int turn_ = 0;  ///< rows since the trial began
  int wins_ = 0;
  Duration least_alone_ = Duration::max();
  bool shares_ = false;  ///< what the last trial said
};

}  // namespace hugectr
