// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/data/data_reader.hpp"
#include "core/cpp/memory/tensor_ref.hpp"

/// Keys and vectors of the tables of a collection where they lie in one array each. For many tables
/// a caller in Python takes longer to name the parts than the tables take to use them.
namespace hugectr {

/// Keys of tables that are pieces of one array.
/// @param keys    (n), packed
/// @param starts  (features + 1), ascending, at most n: where the keys of each feature begin, and
///                where the last end
/// @param bags    (features, m + 1) uint32, packed: offsets of bags, each feature's from its own
///                first key
/// @param order   the feature of each table
/// Throws InvalidArgument where they do not fit each other.
HCTR_API std::vector<SparseTensor> pieces_of(const TensorRef& keys,
                                             const std::vector<std::size_t>& starts,
                                             const TensorRef& bags,
                                             const std::vector<std::size_t>& order);

/// Vectors (m, 1, d) of tables that are the columns of `whole` (m, 1, sum of d), with its row
/// stride. Throws InvalidArgument where the sum is another.
HCTR_API std::vector<TensorRef> columns_of(const TensorRef& whole,
                                           const std::vector<std::size_t>& dims);

}  // namespace hugectr
