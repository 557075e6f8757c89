// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/data/block_cache.hpp"
#include "core/cpp/data/block_feed.hpp"
#include "core/cpp/data/block_order.hpp"

namespace hugectr {
namespace {

class ListedBlocks final : public IBlockFeed {
 public:
  ListedBlocks(IBlockFormat& format, const BlockReading& reading)
      : format_(format),
        reading_(reading),
        order_(format.blocks(), reading.shuffle),
        cache_(format, reading.shuffle, reading.decode_threads, reading.read_ahead_bytes,
               reading.repeat, reading.shard) {
    HCTR_CHECK(order_.rows() > 0 || !reading.repeat, "the data has no samples (",
               format.files().size(), " files), so there is nothing to repeat");
    restart_cache();
  }

  void claim(BlockBatch& batch, std::size_t samples) override {
    while (batch.samples < samples) {
      if (position_.sample == order_.rows()) {
        if (!std::exchange(end_counted_, true)) batch.lost += format_.lost_at_end();
        if (!reading_.repeat) break;
        end_counted_ = false;
        order_.start_epoch(++position_.epoch);
        position_.sample = 0;
      }
      claim_rows(batch, samples);
    }
    batch.next = position_;
    if (!reading_.shuffle.any()) format_.locate(batch.next, batch.samples < samples);
  }

  std::shared_ptr<const IBlock> block(const BlockRun& run, std::uint64_t batch) override {
    return cache_.get(run.visit, batch);
  }
  void done(const BlockRun& run) override { cache_.done(run.visit, run.count); }
  void finished(std::uint64_t batch) override { cache_.finished(batch); }

  void seek(const ReadPosition& position) override {
    HCTR_CHECK(position.sample <= order_.rows() && (position.epoch == 0 || reading_.repeat),
               "the data has ", order_.rows(), " samples", reading_.repeat ? "" : " and one epoch",
               "; there is no sample ", position.sample, " of epoch ", position.epoch,
               ": is this the data that was trained on?");
    ReadPosition here{.epoch = position.epoch, .sample = position.sample};
    if (!reading_.shuffle.any() && position.record > 0) {
      format_.locate(here, false);
      HCTR_CHECK(here.file == position.file && here.record == position.record, "sample ",
                 position.sample, " of the data is record ", here.record, " of its file ",
                 here.file, ", not record ", position.record, " of file ", position.file,
                 ": is this the data that was trained on?");
    }
    position_ = {.epoch = position.epoch, .sample = position.sample};
    end_counted_ = false;
    order_.start_epoch(position.epoch);
    restart_cache();
  }

  std::uint64_t rows_decoded() const override { return cache_.decoded_rows(); }
  std::uint64_t lost_samples() const override { return 0; }

 private:
  /// With a window, samples of a block are claimed out of order: all blocks of the present windows
  /// are needed whole, so the cache may keep a few rows that never come until it is restarted.
  void restart_cache() {
    const std::uint64_t blocks = format_.blocks().size();
    if (blocks == 0) return;
    const auto& starts = order_.block_starts();
    std::uint64_t sample = position_.sample;
    const std::uint64_t window = reading_.shuffle.window;
    if (window > 1) sample -= sample % window;
    const auto place = static_cast<std::uint64_t>(
        std::upper_bound(starts.begin(), starts.end(), sample) - starts.begin() - 1);
    const std::uint64_t gone = window > 1 || place == blocks ? 0 : sample - starts[place];
    cache_.restart(position_.epoch * blocks + place, gone);
  }

  void claim_rows(BlockBatch& batch, std::size_t samples) {
    const std::uint64_t count =
        std::min<std::uint64_t>(samples - batch.samples, order_.rows() - position_.sample);
    runs_.clear();
    order_.append_runs(position_.sample, count, runs_);
    const std::uint64_t first_visit = position_.epoch * format_.blocks().size();
    std::uint64_t last = 0, sample = batch.samples;
    for (const RowRun& run : runs_) {
      const BlockInfo& block = format_.blocks()[order_.block_order()[run.place]];
      if (run.first == 0) batch.lost += block.lost_before;
      if (run.first + run.count == block.rows) batch.lost += block.lost_behind;
      batch.runs.push_back({first_visit + run.place, run.first, run.count, sample, nullptr});
      sample += run.count;
      last = std::max(last, first_visit + run.place);
    }
    cache_.claimed(last, batch.number);
    batch.samples += count;
    position_.sample += count;
  }

  IBlockFormat& format_;
  const BlockReading reading_;
  BlockOrder order_;
  BlockCache cache_;
  ReadPosition position_;
  bool end_counted_ = false;  ///< of this pass: what was lost behind the last block
  std::vector<RowRun> runs_;
};

}  // namespace

std::unique_ptr<IBlockFeed> make_listed_blocks(IBlockFormat& format, const BlockReading& reading) {
  return std::make_unique<ListedBlocks>(format, reading);
}

}  // namespace hugectr
