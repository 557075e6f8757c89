// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>

#include "core/cpp/embedding/table/table.hpp"

namespace hugectr {

/// Bytes of one device's part of a table.
struct TableSize {
  std::size_t index = 0, vectors = 0, states = 0;
  std::size_t places = 0;  ///< of rows in tiers: which row is where
  std::size_t host = 0;    ///< of rows in tiers: vectors and states in host memory
};

/// What a table takes that has `rows` rows (at most `max_rows`; 0: no bound) and plans `keys` keys
/// a batch, by the code that takes it. On the way there it may hold an eighth more than its rows
/// need. `memory`: a counting resource.
TableSize size_of_table(const TableSpec& spec, std::size_t max_rows, std::size_t rows,
                        std::size_t keys, const std::shared_ptr<MemoryResource>& memory);

}  // namespace hugectr
