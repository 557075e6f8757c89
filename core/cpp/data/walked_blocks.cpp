// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/data/block_feed.hpp"

namespace hugectr {
namespace {

class WalkedBlocks final : public IBlockFeed {
 public:
  WalkedBlocks(IBlockFormat& format, std::unique_ptr<IBlockWalk> walk, const BlockReading& reading)
      : format_(format), repeat_(reading.repeat), walk_(std::move(walk)) {
    HCTR_CHECK(!reading.shuffle.any() && reading.shard.count == 1,
               "blocks that are found on the way can not be shuffled or shared by processes");
  }

  void claim(BlockBatch& batch, std::size_t samples) override {
    while (batch.samples < samples && (present_.block || find_next(batch, samples))) {
      take(batch, samples);
    }
    batch.next = position_;
  }

  std::shared_ptr<const IBlock> block(const BlockRun& run, std::uint64_t) override {
    return run.block;
  }
  void done(const BlockRun& run) override { rows_decoded_ += run.count; }
  void finished(std::uint64_t) override {}

  void seek(const ReadPosition& position) override {
    HCTR_CHECK(position.epoch == 0 || repeat_, "the data has one epoch; there is no epoch ",
               position.epoch, ": is this the data that was trained on?");
    walk_ = format_.walk(position);
    present_ = {};
    position_ = position;
    ended_ = false;
  }

  std::uint64_t rows_decoded() const override { return rows_decoded_; }
  std::uint64_t lost_samples() const override { return lost_samples_; }

 private:
  bool find_next(BlockBatch& batch, std::size_t samples) {
    while (!ended_) {
      present_ = walk_->next(samples - batch.samples);
      lose(present_.before, batch);
      position_.record = position_.byte = 0;
      if (present_.block) {
        taken_ = 0;
        position_.file = present_.file + 1;
        return true;
      }
      position_.file = format_.files().size();
      ended_ = !repeat_;
      if (ended_) break;
      walk_ = format_.walk({});
      position_ = {.epoch = position_.epoch + 1};
    }
    return false;
  }

  /// Rows of the present block, until it or the batch ends.
  void take(BlockBatch& batch, std::size_t samples) {
    const std::uint64_t count =
        std::min<std::uint64_t>(samples - batch.samples, present_.rows - taken_);
    batch.runs.push_back(
        {.first = taken_, .count = count, .sample = batch.samples, .block = present_.block});
    taken_ += count;
    batch.samples += count;
    position_.sample += count;
    const bool used_up = taken_ == present_.rows;
    position_.record = used_up && present_.ends_file ? 0 : present_.first_record + taken_;
    position_.byte = used_up && present_.ends_file ? 0 : present_.block->byte_behind(taken_);
    if (!used_up) return;
    lose(present_.behind, batch);
    present_.block.reset();
  }

  void lose(const IBlockWalk::Lost& lost, BlockBatch& batch) {
    if (batch.damage.empty()) batch.damage = lost.damage;
    batch.lost += lost.samples;
    lost_samples_ += lost.samples;
  }

  IBlockFormat& format_;
  const bool repeat_;
  std::unique_ptr<IBlockWalk> walk_;
  IBlockWalk::Found present_;  ///< without a block: it is used up
  std::uint64_t taken_ = 0;    ///< rows of the present block that are claimed
  ReadPosition position_;
  bool ended_ = false;
  std::atomic<std::uint64_t> rows_decoded_{0}, lost_samples_{0};
};

}  // namespace

std::unique_ptr<IBlockFeed> make_walked_blocks(IBlockFormat& format,
                                               std::unique_ptr<IBlockWalk> walk,
                                               const BlockReading& reading) {
  return std::make_unique<WalkedBlocks>(format, std::move(walk), reading);
}

}  // namespace hugectr
