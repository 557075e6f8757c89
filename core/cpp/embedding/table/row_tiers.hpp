// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/embedding/table/row_store.hpp"
#include "core/cpp/embedding/table/table_memory.hpp"

namespace hugectr {

/// Places for rows that such a budget of a device is worth.
std::size_t places_of_budget(const TableMemory& memory, const RowParts& parts);

/// Places in host memory over a disk; 0 without one.
std::size_t host_places_of_budget(const TableMemory& memory, const RowParts& parts);

/// The store of a table's rows on a device. All are in the device's memory when there are no tiers
/// or when `max_rows` rows fit into the budget. `table`: what messages call it, `owner`: table and
/// device. Throws InvalidArgument for tiers under an optimizer that touches every row in each step,
/// or with a budget too small for a row.
std::unique_ptr<RowStore> make_row_store(GPUResource& gpu, const std::string& table,
                                         const std::string& owner, const TableMemory& memory,
                                         const OptParams& params, const RowParts& parts,
                                         std::size_t max_rows);

}  // namespace hugectr
