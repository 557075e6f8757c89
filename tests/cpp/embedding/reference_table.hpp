// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/cpp/embedding/embedding_params.hpp"
#include "tests/cpp/embedding/table_run.hpp"

namespace hugectr::test {

/// The table as the formulas say, in double, one map and no devices. Global updates take the two
/// passes of the textbook form (add g / beta to the touched rows, then decay all rows).
class ReferenceTable {
 public:
  ReferenceTable(SparseEmbeddingHashParams params, std::uint64_t seed);

  std::vector<double> forward(const HostBatch& batch) const;
  /// Inserts the batch's keys as new rows where they are new.
  void insert(const HostBatch& batch);
  void update(const HostBatch& batch, const std::vector<float>& gradient, double lr,
              std::int64_t step, double unscale);

  /// In the order of a dump.
  std::vector<std::int64_t> keys() const;
  std::vector<std::uint64_t> slots() const;
  std::vector<double> vectors() const;
  std::vector<double> state(std::size_t index) const;

 private:
  struct Row {
    std::vector<double> w, s0, s1;
    std::int64_t last_step = 1;
  };
  using RowKey = std::pair<std::uint64_t, std::int64_t>;  // slot (0 unless it counts), key
  RowKey row_key(std::size_t bucket, std::int64_t key) const;
  Row new_row(const RowKey& key) const;
  void adjust(Row& row, std::vector<double>& g, double lr) const;
  void update_touched(Row& row, const std::vector<double>& g, double lr, std::int64_t step);
  void global_update(const std::map<RowKey, std::vector<double>>& gradients, double lr,
                     std::int64_t step);

  SparseEmbeddingHashParams params_;
  std::uint64_t seed_;
  std::map<RowKey, Row> rows_;
};

/// The rows of a dump against the reference: the same, values and states within 1e-5.
void expect_rows(const BufferBag& rows, const ReferenceTable& reference);

}  // namespace hugectr::test
