// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/work_counts.hpp"

#include <atomic>

namespace hugectr {
namespace {

std::atomic<std::uint64_t> ops{0}, collectives{0}, launches{0};

void add_one(std::atomic<std::uint64_t>& count) noexcept {
  count.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

WorkCounts work_counts() { return {ops.load(), collectives.load(), launches.load()}; }
void count_op() noexcept { add_one(ops); }
void count_collective() noexcept { add_one(collectives); }
void count_launch() noexcept { add_one(launches); }

}  // namespace hugectr
