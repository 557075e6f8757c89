// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>

namespace hugectr {

/// Counts damaged samples and logs the first damage of each file, up to a limit of files.
class DamageLog {
 public:
  void add(const std::string& path, const std::string& message, std::uint64_t samples);
  std::uint64_t samples() const { return samples_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kLoggedFiles = 20;
  std::atomic<std::uint64_t> samples_{0};
  std::mutex mutex_;
  std::set<std::string> logged_;
};

}  // namespace hugectr
