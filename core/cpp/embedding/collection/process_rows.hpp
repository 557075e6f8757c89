// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace hugectr {

/// How many rows of each table go to, or come from, each process: a block of a message each, which
/// lie by process, then by table. Tables are counted in the order in which they travel.
class ProcessRows {
 public:
  ProcessRows() = default;
  ProcessRows(std::size_t processes, std::size_t tables)
      : tables_(tables), counts_(processes * tables) {}
  ProcessRows(std::size_t tables, std::vector<std::int64_t> counts)
      : tables_(tables), counts_(std::move(counts)) {}

  std::size_t processes() const { return tables_ == 0 ? 0 : counts_.size() / tables_; }
  std::size_t tables() const { return tables_; }
  std::int64_t& at(std::size_t process, std::size_t table) {
    return counts_[process * tables_ + table];
  }
  std::int64_t at(std::size_t process, std::size_t table) const {
    return counts_[process * tables_ + table];
  }
  const std::vector<std::int64_t>& counts() const { return counts_; }

  /// Of a table, from or to all processes.
  std::int64_t of_table(std::size_t table) const {
    std::int64_t sum = 0;
    for (std::size_t p = 0; p < processes(); ++p) sum += at(p, table);
    return sum;
  }
  /// Of each process, of tables first .. end - 1.
  std::vector<std::int64_t> of_processes(std::size_t first, std::size_t end) const {
    std::vector<std::int64_t> sums(processes());
    for (std::size_t p = 0; p < sums.size(); ++p) {
      for (std::size_t t = first; t < end; ++t) sums[p] += at(p, t);
    }
    return sums;
  }
  /// Calls f(process, table, begin, count) for each block of a message of tables first .. end - 1,
  /// in its order.
  template <class F>
  void each_block(std::size_t first, std::size_t end, const F& f) const {
    std::int64_t begin = 0;
    for (std::size_t p = 0; p < processes(); ++p) {
      for (std::size_t t = first; t < end; ++t) {
        f(p, t, begin, at(p, t));
        begin += at(p, t);
      }
    }
  }

 private:
  std::size_t tables_ = 0;
  std::vector<std::int64_t> counts_;
};

}  // namespace hugectr
