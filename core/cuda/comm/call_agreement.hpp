// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "core/cpp/comm/check_collective.hpp"

namespace hugectr::cuda {

/// Compares the n-th collective of every rank of a process, or those that go together as the n-th,
/// without making one wait for another: each is held until the last rank has brought its part. The
/// ranks of other processes are not seen.
class CallAgreement {
 public:
  using Calls = std::vector<CollectiveCall>;

  /// `ranks`: those of this process, numbered in the job.
  explicit CallAgreement(std::vector<std::size_t> ranks)
      : ranks_(std::move(ranks)), made_(ranks_.size(), 0) {}

  /// What the process's `local`-th rank calls next, at least one. Throws CommError when another
  /// rank's n-th, seen before, is no part of this.
  void enter(std::size_t local, Calls calls) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t n = made_[local]++;
    if (n - first_ == pending_.size()) pending_.emplace_back(made_.size());
    std::vector<Calls>& of_ranks = pending_[n - first_];
    of_ranks[local] = std::move(calls);
    bool complete = true;
    for (std::size_t r = 0; r < of_ranks.size(); ++r) {
      if (of_ranks[r].empty()) {
        complete = false;
        continue;
      }
      const auto [a, b] = std::minmax(r, local);
      check_agreement(ranks_[a], of_ranks[a], ranks_[b], of_ranks[b]);
    }
    // The ranks come to their calls in order, so the oldest one is complete first.
    if (complete) {
      pending_.pop_front();
      ++first_;
    }
  }

  /// Forgets all calls: the ranks begin anew.
  void reset() {
    const std::lock_guard lock(mutex_);
    std::fill(made_.begin(), made_.end(), 0);
    first_ = 0;
    pending_.clear();
  }

 private:
  std::mutex mutex_;
  const std::vector<std::size_t> ranks_;
  std::vector<std::uint64_t> made_;         ///< [local rank]
  std::uint64_t first_ = 0;                 ///< number of the first that is pending
  std::deque<std::vector<Calls>> pending_;  ///< [number - first_][local rank]; empty: not yet there
};

}  // namespace hugectr::cuda
