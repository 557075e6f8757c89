// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <chrono>
#include <mutex>

#include "core/cpp/data/data_reader.hpp"

namespace hugectr {

/// Where the threads of a reader write down how long they worked and waited.
class ReaderLedger {
 public:
  /// Adds its own lifetime to one field of the ledger.
  class Timer {
   public:
    Timer(ReaderLedger& ledger, double ReaderMetrics::* field)
        : ledger_(ledger), field_(field), start_(std::chrono::steady_clock::now()) {}
    ~Timer() {
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
      const std::lock_guard lock(ledger_.mutex_);
      ledger_.values_.*field_ += spent.count();
    }
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;

   private:
    ReaderLedger& ledger_;
    double ReaderMetrics::* field_;
    std::chrono::steady_clock::time_point start_;
  };

  /// A batch goes to the devices; before it was taken the queues held this much.
  void count_batch(std::size_t ready_depth, std::size_t credit_depth) {
    const std::lock_guard lock(mutex_);
    ++values_.batches;
    values_.ready_depth += static_cast<double>(ready_depth);
    values_.credit_depth += static_cast<double>(credit_depth);
  }

  /// The step takes a batch; before, so many waited for it.
  void count_acquired(std::size_t ahead_depth) {
    const std::lock_guard lock(mutex_);
    ++values_.acquired;
    values_.ahead_depth += static_cast<double>(ahead_depth);
  }

  /// What was written since the last call; `bad_samples` is the source's total.
  ReaderMetrics take(std::uint64_t bad_samples) {
    const std::lock_guard lock(mutex_);
    ReaderMetrics result = values_;
    result.bad_samples = bad_samples - reported_bad_samples_;
    reported_bad_samples_ = bad_samples;
    values_ = {};
    const auto now = std::chrono::steady_clock::now();
    result.seconds = std::chrono::duration<double>(now - since_).count();
    since_ = now;
    const auto batches = static_cast<double>(std::max<std::uint64_t>(1, result.batches));
    result.ready_depth /= batches;
    result.credit_depth /= batches;
    result.ahead_depth /= static_cast<double>(std::max<std::uint64_t>(1, result.acquired));
    return result;
  }

 private:
  std::mutex mutex_;
  ReaderMetrics values_;  ///< its depths are sums
  std::uint64_t reported_bad_samples_ = 0;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

}  // namespace hugectr
