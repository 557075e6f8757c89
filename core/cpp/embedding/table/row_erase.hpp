// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "core/cpp/embedding/table/table.hpp"

namespace hugectr {

/// Forgets the rows of these keys (and slots, where they are part of identity) on one device; keys
/// without a visible row are passed over. Returns how many rows went. Waits.
std::size_t erase_rows(Table& table, const std::vector<std::int64_t>& keys,
                       const std::vector<std::uint32_t>& slots);

}  // namespace hugectr
