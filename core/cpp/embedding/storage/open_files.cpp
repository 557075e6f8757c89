// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/storage/open_files.hpp"

#include <sys/resource.h>

#include <algorithm>

namespace hugectr {

void allow_many_open_files() {
  constexpr rlim_t kMost = rlim_t{1} << 20;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kMost) return;
  const rlim_t wanted = std::min(kMost, limit.rlim_max);
  if (wanted <= limit.rlim_cur) return;
  limit.rlim_cur = wanted;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
}

}  // namespace hugectr
