// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/cpp/embedding/embedding_params.hpp"
#include "core/cpp/embedding/placement/placement.hpp"
#include "core/cpp/embedding/table/table.hpp"

namespace hugectr {

/// What such a table is on any of this process's `devices`, and how many rows the device `rank` may
/// hold.
TableSpec table_spec(const SparseEmbeddingHashParams& params, std::uint64_t seed,
                     std::size_t devices);
/// Keys of its slots there, where they are found directly; else empty.
std::vector<DirectSlot> direct_slots(const SparseEmbeddingHashParams& params,
                                     const Placement& placement, std::size_t rank);
/// Which they are, and the way out, for messages about others.
std::string keys_of_slot(const SparseEmbeddingHashParams& params, std::size_t slot);
RowBudget row_budget(const SparseEmbeddingHashParams& params, const Placement& placement,
                     std::size_t rank);
/// Bytes of a device's part of Memory(host=), or over a disk of Memory(disk=), that are enough for
/// so many rows; over a disk not quite the fewest. 0: no such budget bounds them.
std::size_t least_memory(const SparseEmbeddingHashParams& params, const Placement& placement,
                         std::size_t rank, std::size_t rows);
/// Where its rows are in a job of these devices. Throws InvalidArgument for a device that is none,
/// and for columns of an optimizer that has one number a row.
std::unique_ptr<Placement> table_placement(const SparseEmbeddingHashParams& params,
                                           const std::vector<std::size_t>& process_of_device);
/// Of a hybrid on several devices that of its frequent rows, else null.
std::unique_ptr<Placement> frequent_placement(const SparseEmbeddingHashParams& params,
                                              std::size_t device_count);

}  // namespace hugectr
