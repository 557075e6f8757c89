// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <mutex>

#include "core/cpp/base/export.hpp"

namespace hugectr {

/// Whether the pool's threads get some of the work of single rows that are predicted one after
/// another. To wake a thread takes longer than a row, so only those that wait awake can help, and
/// only those that hold a core do. So a thread is roused, rows are shared from when it is awake and
/// as long as it helps, and after one that nobody helped with rows go alone for a while, which gets
/// longer each time. Any thread may call; no result depends on it.
class HCTR_API RowSharing {
 public:
  enum class Way {
    Alone,   ///< the caller does all of the row
    Rouse,   ///< so, and has a thread wake up for the rows after
    Shared,  ///< parts of the row are there for others
  };

  /// Rows after which who was roused and is not awake will not be: longer than waking up takes.
  static constexpr int kWaking = 16;
  /// Rows that go alone after the first in vain, before somebody is roused again, and at most.
  static constexpr int kLeastRest = 4, kMostRest = 4096;

  /// How the row that is predicted next is, where threads wait awake or not.
  Way next(bool somebody_awake);
  /// After a shared row: whether anybody took part of it.
  void shared(bool helped);

 private:
  void rest();

  std::mutex mutex_;
  int alone_ = 1;           ///< rows that go alone yet; at the last of them somebody is roused
  int waking_ = 0;          ///< rows yet in which who was roused may be awake
  int pause_ = kLeastRest;  ///< the next rest
};

}  // namespace hugectr
