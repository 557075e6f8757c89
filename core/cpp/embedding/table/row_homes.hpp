// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/device/op.hpp"
#include "core/cpp/embedding/table/row_arrays.hpp"
#include "core/cpp/memory/memory_resource.hpp"

/// Rows that lie at home anywhere (CachedPlans): row r at r + shifts[r], modulo 2^32.
namespace hugectr {

/// Numbers of rows become their homes; kNoRow stays. By an op of the context's device, for which
/// `memory` is; waits.
///   shifts (R) uint32 on the device
void rows_to_homes(const OpContext& context, const std::shared_ptr<MemoryResource>& memory,
                   const std::string& owner, const TensorRef& shifts,
                   std::vector<std::uint32_t>& rows);

/// All rows are brought home to the places of their numbers, and shifts (R) become 0. Nothing else
/// reads or writes the arrays, which lie in host memory, meanwhile; waits.
void put_in_order(const OpContext& context, const RowArrays& arrays, const TensorRef& shifts);

/// Rows that lie anywhere in host memory are brought to the places of their numbers, by the threads
/// of the pool and with some megabytes of scratch memory.
///   homes (R): where row r lies, each place once; r for all when it returns
///   arrays: (>= R, w) each
/// Rows that are there already are neither read nor written.
void put_in_order(ThreadPool& pool, const RowArrays& arrays, std::vector<std::uint32_t>& homes);

}  // namespace hugectr
