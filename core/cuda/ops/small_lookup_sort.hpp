// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <span>

#include "core/cpp/ops/lookup_sort.hpp"

namespace hugectr::cuda {

/// Keys that a block sorts in its shared memory.
inline constexpr std::size_t kSmallSort = 8192;

/// Sorts of at most kSmallSort keys each, a block a table: one launch where the sort of many keys
/// has a dozen, which take longer than the work of few.
void sort_small(const OpContext& context, std::span<const LookupSort> ops);

}  // namespace hugectr::cuda
