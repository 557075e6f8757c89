// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/data/data_reader.hpp"
#include "core/cpp/memory/tensor_ref.hpp"
#include "core/cpp/ops/bag_offsets.hpp"

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

/// What makes the bags of pieces_of() out of offsets as a caller has them: of all features one
/// after the other, whose values nobody has looked at.
/// @param offsets (features * m + 1) int64 or int32, packed
/// @param starts, bags  as of pieces_of(); the ops have no `wrong` yet
HCTR_API std::vector<BagOffsets> bags_of(const TensorRef& offsets,
                                         const std::vector<std::size_t>& starts,
                                         const TensorRef& bags);

/// Vectors (m, 1, d) of tables that are the columns of `whole` (m, 1, sum of d), with its row
/// stride. Throws InvalidArgument where the sum is another.
HCTR_API std::vector<TensorRef> columns_of(const TensorRef& whole,
                                           const std::vector<std::size_t>& dims);

}  // namespace hugectr
