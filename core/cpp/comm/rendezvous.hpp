// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

namespace hugectr {

/// Meeting point of the ranks of one process. A collective is meet(), work, part(): between the
/// two every rank may touch the buffers of all others.
class Rendezvous {
 public:
  explicit Rendezvous(std::size_t ranks) : ranks_(ranks) {}

  /// Returns once all ranks are here. Throws CommError when the group is or gets aborted first;
  /// then it does so in every rank that is not yet through.
  void meet();

  /// Returns once all ranks have finished their work. Never fails: every rank that came through
  /// meet() gets here, and nobody may leave while others still use its buffers.
  void part() noexcept;

  /// Makes pending and later meet() calls throw CommError with the first reason given.
  void abort(const std::string& reason) noexcept;

  /// Lets the ranks meet again after abort(). Call while no rank is in meet() or between the two.
  void renew() noexcept;

 private:
  std::size_t ranks_;
  std::mutex mutex_;
  std::condition_variable met_, parted_;
  std::size_t waiting_ = 0;  ///< ranks in meet()
  std::size_t working_ = 0;  ///< ranks that are not yet in part()
  std::uint64_t meetings_ = 0;
  std::uint64_t partings_ = 0;
  bool aborted_ = false;
  std::string reason_;
};

}  // namespace hugectr
