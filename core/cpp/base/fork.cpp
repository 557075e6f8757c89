// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/base/fork.hpp"

#include <pthread.h>

#include <atomic>

namespace hugectr {
namespace {

std::atomic<std::uint64_t> generation{0};

[[maybe_unused]] const int registered =
    pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });

}  // namespace

std::uint64_t fork_generation() noexcept { return generation.load(std::memory_order_relaxed); }

}  // namespace hugectr
