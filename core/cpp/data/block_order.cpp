// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/block_order.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/random.hpp"

namespace hugectr {
namespace {

constexpr std::uint64_t kLargestWindow = std::uint64_t{1} << 31;

/// What a number is drawn for; part of the key of the generator.
enum Purpose : std::uint64_t { kFiles = 1, kBlocks = 2, kWindow = 3 };

/// A number in [0, n) from 64 random bits, without the bias of a remainder worth speaking of.
std::size_t below(std::uint64_t bits, std::size_t n) {
  return static_cast<std::size_t>((static_cast<unsigned __int128>(bits) * n) >> 64);
}

/// Fisher and Yates: a permutation that depends on the key alone.
template <class T>
void permute(std::uint64_t key, T* values, std::size_t count) {
  for (std::size_t i = count; i > 1; --i) {
    std::swap(values[i - 1], values[below(mix_key(key, i), i)]);
  }
}

}  // namespace

BlockOrder::BlockOrder(const std::vector<BlockInfo>& blocks, const ShuffleSpec& shuffle)
    : blocks_(blocks), shuffle_(shuffle) {
  HCTR_CHECK(shuffle.window <= kLargestWindow, "shuffle: a window of ", shuffle.window,
             " samples is too large, allowed are up to ", kLargestWindow);
  for (const BlockInfo& block : blocks_) rows_ += block.rows;
  start_epoch(0);
}

void BlockOrder::start_epoch(std::uint64_t epoch) {
  epoch_ = epoch;
  order_.resize(blocks_.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  const std::uint64_t key = mix_key(shuffle_.seed, epoch);
  if (shuffle_.files && shuffle_.blocks) {
    permute(mix_key(key, kBlocks), order_.data(), order_.size());
  } else if (shuffle_.files || shuffle_.blocks) {
    // Blocks of a file lie one after the other.
    std::vector<std::vector<std::size_t>> files;
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      if (b == 0 || blocks_[b].file != blocks_[b - 1].file) files.emplace_back();
      files.back().push_back(b);
    }
    if (shuffle_.files) permute(mix_key(key, kFiles), files.data(), files.size());
    order_.clear();
    for (std::vector<std::size_t>& file : files) {
      if (shuffle_.blocks) {
        permute(mix_key(mix_key(key, kBlocks), file.front()), file.data(), file.size());
      }
      order_.insert(order_.end(), file.begin(), file.end());
    }
  }
  starts_.assign(1, 0);
  for (const std::size_t block : order_) starts_.push_back(starts_.back() + blocks_[block].rows);
}

void BlockOrder::append_runs(std::uint64_t first, std::uint64_t count,
                             std::vector<RowRun>& runs) const {
  if (shuffle_.window <= 1) return append_linear(first, count, runs);
  for (std::uint64_t i = first; i < first + count; ++i) {
    const std::uint64_t index = i / shuffle_.window, begin = index * shuffle_.window;
    if (index != window_index_ || epoch_ != window_epoch_) make_window(index);
    append_linear(begin + window_[i - begin], 1, runs);
  }
}

void BlockOrder::make_window(std::uint64_t index) const {
  const std::uint64_t begin = index * shuffle_.window;
  window_.resize(std::min(shuffle_.window, rows_ - begin));
  std::iota(window_.begin(), window_.end(), 0u);
  const std::uint64_t key = mix_key(mix_key(shuffle_.seed, epoch_), kWindow);
  permute(mix_key(key, index), window_.data(), window_.size());
  window_index_ = index;
  window_epoch_ = epoch_;
}

void BlockOrder::append_linear(std::uint64_t first, std::uint64_t count,
                               std::vector<RowRun>& runs) const {
  auto place = static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), first) -
                                        starts_.begin() - 1);
  while (count > 0) {
    const std::uint64_t offset = first - starts_[place];
    const std::uint64_t here = std::min(count, starts_[place + 1] - first);
    if (here > 0) runs.push_back({place, offset, here});
    first += here;
    count -= here;
    ++place;
  }
}

}  // namespace hugectr
