// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/embedding/table/row_order.hpp"

namespace hugectr {

/// How alike two vectors a, b are: a.b / (|a| |b|) (0 where one is all zeros), a.b, or the length
/// of a - b, of which less is nearer.
enum class Similarity { Cosine, Dot, L2 };

/// "cosine", "dot" or "l2"; throws InvalidArgument for any other name.
HCTR_API Similarity similarity_named(const std::string& name);

/// Rows, the nearest first; of two equally near ones the one with the lesser (slot, key) first.
struct Neighbours {
  std::vector<std::int64_t> keys;
  std::vector<std::uint64_t> slot_ids;  ///< where slots are part of identity, else empty
  std::vector<double> scores;           ///< by the similarity asked for
};

/// Which row a query is of, so that it is no neighbour of its own.
struct RowName {
  std::int64_t key = 0;
  std::uint64_t slot = 0;
};

/// The k visible rows of all parts that are nearest to a vector, or all when there are fewer.
/// Exact: every row is compared, in float64, a block of rows a thread; what comes out depends on
/// neither the number of threads nor that of devices. A score that is no number comes last.
/// query: (vec_size). Rows of a device with memory of its own go through its staging pieces.
Neighbours nearest_rows(const TableParts& parts, ThreadPool& pool, std::span<const float> query,
                        std::size_t k, Similarity similarity, const std::optional<RowName>& but);

}  // namespace hugectr
