// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/damage_log.hpp"

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/log.hpp"

namespace hugectr {

void DamageLog::add(const std::string& path, const std::string& message, std::uint64_t samples) {
  samples_.fetch_add(samples, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  if (logged_.size() >= kLoggedFiles || !logged_.insert(path).second) return;
  log(LogLevel::Warning, concat("skipping damaged data: ", message,
                                logged_.size() == kLoggedFiles
                                    ? " (damage in further files is counted, not logged)"
                                    : " (further damage in this file is counted, not logged)"));
}

}  // namespace hugectr
