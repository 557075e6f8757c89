// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/data/block_format.hpp"

namespace hugectr {

/// How the order of samples differs from that of the files. Everything is a function of (seed,
/// epoch): no number of threads or processes changes it.
struct ShuffleSpec {
  std::uint64_t seed = 0;
  bool files = false;        ///< the order of files
  bool blocks = false;       ///< the order of blocks (of each file; of all when files is set too)
  std::uint64_t window = 0;  ///< samples are permuted inside windows of so many; 0 or 1: not
  bool any() const { return files || blocks || window > 1; }
};

/// Rows [first, first + count) of the block at a place of an epoch's order.
struct RowRun {
  std::size_t place = 0;
  std::uint64_t first = 0, count = 0;
};

/// One pass over all blocks in the order of an epoch, from any sample on.
class HCTR_API BlockOrder {
 public:
  /// `blocks` outlives the object.
  BlockOrder(const std::vector<BlockInfo>& blocks, const ShuffleSpec& shuffle);

  std::uint64_t rows() const { return rows_; }
  /// Makes the order of an epoch the present one.
  void start_epoch(std::uint64_t epoch);
  /// Appends the runs of samples [first, first + count) of the present epoch; count must not reach
  /// beyond rows().
  void append_runs(std::uint64_t first, std::uint64_t count, std::vector<RowRun>& runs) const;
  /// Blocks in the order of the present epoch, and the sample each begins with (without window).
  const std::vector<std::size_t>& block_order() const { return order_; }
  const std::vector<std::uint64_t>& block_starts() const { return starts_; }

 private:
  void append_linear(std::uint64_t first, std::uint64_t count, std::vector<RowRun>& runs) const;
  void make_window(std::uint64_t index) const;

  const std::vector<BlockInfo>& blocks_;
  ShuffleSpec shuffle_;
  std::uint64_t rows_ = 0, epoch_ = 0;
  std::vector<std::size_t> order_;
  std::vector<std::uint64_t> starts_;          ///< order_.size() + 1
  mutable std::vector<std::uint32_t> window_;  ///< permutation of the window last asked for
  mutable std::uint64_t window_index_ = ~std::uint64_t{0}, window_epoch_ = 0;
};

}  // namespace hugectr
