// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "core/cpp/device/op.hpp"
#include "core/cpp/embedding/lookup/lookup_group.hpp"
#include "core/cpp/embedding/table/row_store.hpp"
#include "core/cpp/ops/embedding_update.hpp"

namespace hugectr {

/// Gradients of a table's rows by run (lookup_sort.hpp), as an update goes over them.
struct RowRuns {
  TensorRef sorted_buckets, distinct, run_offsets, run_count;
  TensorRef gradient;        ///< (B, S, d)
  TensorRef scale;           ///< of its buckets; empty: 1
  RowRounding rounding{};    ///< of the distinct rows
  std::int64_t longest = 0;  ///< no run has more buckets; 0: nobody knows
};

/// Updates of several tables, run as one op each for the rows of the runs and for all others.
class RowUpdates {
 public:
  /// `step`: number of the table's own update (OwnSteps).
  void add(const RowRuns& runs, const RowArrays& arrays, const UpdateScalars& scalars,
           const TensorRef& step, const OptParams& params);
  void run(const OpContext& context);
  /// Room for the updates of so many tables.
  void reserve(std::size_t tables) { updates_.reserve(tables); }

 private:
  std::vector<EmbeddingUpdate> updates_;
  std::vector<EmbeddingSweep> sweeps_;
};

}  // namespace hugectr
