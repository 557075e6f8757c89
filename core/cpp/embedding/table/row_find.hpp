// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "core/cpp/embedding/table/table.hpp"

namespace hugectr {

/// Numbers of the rows of these keys (and slots, where they are part of identity) on one device;
/// kNoRow for a key without a visible row. Waits.
std::vector<std::uint32_t> find_rows(Table& table, const std::vector<std::int64_t>& keys,
                                     const std::vector<std::uint32_t>& slots);

}  // namespace hugectr
