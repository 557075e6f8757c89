// SPDX-License-Identifier: Apache-2.0
#pragma once
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

  void count_batch() {
    const std::lock_guard lock(mutex_);
    ++values_.batches;
  }

  /// What was written since the last call; `bad_samples` is the source's total.
  ReaderMetrics take(std::uint64_t bad_samples) {
    const std::lock_guard lock(mutex_);
    ReaderMetrics result = values_;
    result.bad_samples = bad_samples - reported_bad_samples_;
    reported_bad_samples_ = bad_samples;
    values_ = {};
    return result;
  }

 private:
  std::mutex mutex_;
  ReaderMetrics values_;
  std::uint64_t reported_bad_samples_ = 0;
};

}  // namespace hugectr
