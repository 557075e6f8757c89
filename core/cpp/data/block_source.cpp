// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/block_source.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/data/block_cache.hpp"
#include "core/cpp/data/damage_log.hpp"
#include "core/cpp/data/process_agreement.hpp"

namespace hugectr {
namespace {

/// Rows [first, first + count) of a visited block.
struct VisitRun {
  std::uint64_t visit = 0, first = 0, count = 0;
  std::uint64_t sample = 0;  ///< where they begin in the batch
};

struct BlockRawBatch final : RawBatch {
  std::uint64_t number = 0;  ///< of the claim, from 1 on
  std::vector<VisitRun> runs;
};

class BlockSource final : public IBatchSource {
 public:
  BlockSource(std::unique_ptr<IBlockFormat> format, const InputLayout& layout,
              const BlockReading& reading)
      : format_(std::move(format)), layout_(layout), reading_(reading) {
    layout_.check();
    begin();
  }

  std::unique_ptr<RawBatch> make_raw_batch() const override {
    return std::make_unique<BlockRawBatch>();
  }

  bool claim(RawBatch& raw, std::size_t batch) override {
    auto& mine = static_cast<BlockRawBatch&>(raw);
    mine.runs.clear();
    mine.samples = 0;
    mine.lost = 0;
    cache_->finished(mine.number);  // if nobody parsed it
    mine.number = ++claims_;
    while (mine.samples < batch) {
      if (position_.sample == order_->rows()) {
        if (!std::exchange(end_counted_, true)) mine.lost += format_->lost_at_end();
        if (!reading_.repeat) break;
        end_counted_ = false;
        order_->start_epoch(++position_.epoch);
        position_.sample = 0;
      }
      claim_rows(mine, batch);
    }
    mine.next = position_;
    if (!reading_.shuffle.any()) format_->locate(mine.next, mine.samples < batch);
    return mine.samples > 0;
  }

  void parse(const RawBatch& raw, std::size_t batch, CSRChunk& chunk) const override {
    const auto& mine = static_cast<const BlockRawBatch&>(raw);
    const Parsing parsing{*cache_, mine.number};
    chunk.samples = mine.samples;
    chunk.skipped = 0;
    chunk.lost = mine.lost;
    chunk.first_damage.clear();
    chunk.runs.clear();
    std::vector<VisitRun> runs;
    for (const VisitRun& run : mine.runs) {
      if (reading_.shard.owns(run.visit)) runs.push_back(run);
      if (reading_.shard.count > 1) append_owner(run, chunk.runs);
    }
    std::vector<std::shared_ptr<const IBlock>> blocks;
    for (const VisitRun& run : runs) {
      placed(run.sample,
             [&] { blocks.push_back(block_of(run, blocks, runs, mine.number, chunk)); });
    }
    for (std::size_t input = 0; input < layout_.sparse.size(); ++input) {
      std::size_t keys = 0;
      for (std::size_t r = 0; r < blocks.size(); ++r) {
        if (blocks[r]) keys += blocks[r]->key_count(input, runs[r].first, runs[r].count);
      }
      chunk.sparse[input].nnz = 0;
      chunk.sparse[input].row_offsets.as<offset_t>()[0] = 0;
      chunk.sparse[input].keys.reserve(keys * (layout_.i64_keys ? 8 : 4));
    }
    const bool ends_here = !runs.empty() && reading_.shard.owns(mine.runs.back().visit);
    if (ends_here && chunk.next.record > 0 && blocks.back()) {
      chunk.next.byte = blocks.back()->byte_behind(runs.back().first + runs.back().count);
    }
    std::size_t at = 0;
    for (std::size_t r = 0; r < blocks.size(); ++r) {
      const VisitRun& run = runs[r];
      // All blocks are there before the first row is looked at, in whichever process.
      placed(batch + run.sample, [&] {
        chunk.skipped += blocks[r] ? blocks[r]->copy_rows(run.first, run.count, at, chunk)
                                   : skip_rows(run, at, chunk);
      });
      at += run.count;
      blocks[r].reset();  // before its bytes count as free
      cache_->done(run.visit, run.count);
    }
    damage_samples_ += chunk.skipped;
    if (reading_.shard.count == 1) pad_samples(layout_, at, batch, chunk);
  }

  std::size_t sharing_processes() const override { return reading_.shard.count; }

  void set_source(const std::string& source) override {
    // The cache's threads decode blocks of the old files: they end before those go.
    decoded_before_ += cache_->decoded_rows();
    cache_.reset();
    try {
      format_->set_source(source);
    } catch (...) {
      begin();
      throw;
    }
    begin();
  }

  void seek(const ReadPosition& position) override {
    HCTR_CHECK(position.sample <= order_->rows() && (position.epoch == 0 || reading_.repeat),
               "the data has ", order_->rows(), " samples", reading_.repeat ? "" : " and one epoch",
               "; there is no sample ", position.sample, " of epoch ", position.epoch,
               ": is this the data that was trained on?");
    ReadPosition here{.epoch = position.epoch, .sample = position.sample};
    if (!reading_.shuffle.any() && position.record > 0) {
      format_->locate(here, false);
      HCTR_CHECK(here.file == position.file && here.record == position.record, "sample ",
                 position.sample, " of the data is record ", here.record, " of its file ",
                 here.file, ", not record ", position.record, " of file ", position.file,
                 ": is this the data that was trained on?");
    }
    position_ = {.epoch = position.epoch, .sample = position.sample};
    end_counted_ = false;
    order_->start_epoch(position.epoch);
    restart_cache();
  }

  std::uint64_t rows_decoded() const override { return decoded_before_ + cache_->decoded_rows(); }
  std::uint64_t bad_samples() const override { return damage_samples_ + format_->bad_samples(); }

 private:
  /// However parsing ends, the next batch is the oldest then.
  struct Parsing {
    BlockCache& cache;
    std::uint64_t number;
    ~Parsing() { cache.finished(number); }
  };

  void begin() {
    order_.emplace(format_->blocks(), reading_.shuffle);
    HCTR_CHECK(order_->rows() > 0 || !reading_.repeat, "the data has no samples (",
               format_->files().size(), " files), so there is nothing to repeat");
    position_ = {};
    end_counted_ = false;
    cache_ =
        std::make_unique<BlockCache>(*format_, reading_.shuffle, reading_.decode_threads,
                                     reading_.read_ahead_bytes, reading_.repeat, reading_.shard);
    restart_cache();
  }

  /// With a window, samples of a block are claimed out of order: all blocks of the present windows
  /// are needed whole, so the cache may keep a few rows that never come until it is restarted.
  void restart_cache() {
    const std::uint64_t blocks = format_->blocks().size();
    if (blocks == 0) return;
    const auto& starts = order_->block_starts();
    std::uint64_t sample = position_.sample;
    const std::uint64_t window = reading_.shuffle.window;
    if (window > 1) sample -= sample % window;
    const auto place = static_cast<std::uint64_t>(
        std::upper_bound(starts.begin(), starts.end(), sample) - starts.begin() - 1);
    const std::uint64_t gone = window > 1 || place == blocks ? 0 : sample - starts[place];
    cache_->restart(position_.epoch * blocks + place, gone);
  }

  void claim_rows(BlockRawBatch& mine, std::size_t batch) {
    const std::uint64_t count =
        std::min<std::uint64_t>(batch - mine.samples, order_->rows() - position_.sample);
    runs_.clear();
    order_->append_runs(position_.sample, count, runs_);
    const std::uint64_t first_visit = position_.epoch * format_->blocks().size();
    std::uint64_t last = 0, sample = mine.samples;
    for (const RowRun& run : runs_) {
      const BlockInfo& block = format_->blocks()[order_->block_order()[run.place]];
      if (run.first == 0) mine.lost += block.lost_before;
      if (run.first + run.count == block.rows) mine.lost += block.lost_behind;
      mine.runs.push_back({first_visit + run.place, run.first, run.count, sample});
      sample += run.count;
      last = std::max(last, first_visit + run.place);
    }
    cache_->claimed(last, mine.number);
    mine.samples += count;
    position_.sample += count;
  }

  /// The decoded block of a run, or nullptr when it is damaged and to be skipped.
  std::shared_ptr<const IBlock> block_of(const VisitRun& run,
                                         const std::vector<std::shared_ptr<const IBlock>>& before,
                                         const std::vector<VisitRun>& runs, std::uint64_t batch,
                                         CSRChunk& chunk) const {
    if (!before.empty() && runs[before.size() - 1].visit == run.visit) return before.back();
    try {
      return cache_->get(run.visit, batch);
    } catch (const DataError& error) {
      if (reading_.on_bad_data == OnBadData::Error) throw;
      if (chunk.first_damage.empty()) chunk.first_damage = error.what();
      damage_.add(concat("block ", run.visit), error.what(), 0);
      return nullptr;
    }
  }

  /// Runs f; damage that it finds is thrown with its place among all processes' in the batch.
  template <class F>
  void placed(std::uint64_t place, const F& f) const {
    try {
      f();
    } catch (const DataError& error) {
      if (reading_.shard.count == 1) throw;
      throw PlacedDataError(error.what(), place);
    }
  }

  void append_owner(const VisitRun& run, std::vector<BatchRun>& runs) const {
    const std::size_t owner = reading_.shard.owner(run.visit);
    if (runs.empty() || runs.back().process != owner) runs.push_back({owner, 0});
    runs.back().samples += run.count;
  }

  std::size_t skip_rows(const VisitRun& run, std::size_t at, CSRChunk& chunk) const {
    // Padding and skipped samples look the same; what follows overwrites what is too much.
    pad_samples(layout_, at, at + run.count, chunk);
    return run.count;
  }

  std::unique_ptr<IBlockFormat> format_;
  const InputLayout layout_;
  const BlockReading reading_;
  std::optional<BlockOrder> order_;
  std::unique_ptr<BlockCache> cache_;
  std::uint64_t decoded_before_ = 0;  ///< rows, by the caches of former sources
  ReadPosition position_;
  std::uint64_t claims_ = 0;
  bool end_counted_ = false;  ///< of this pass: what was lost behind the last block
  std::vector<RowRun> runs_;
  mutable DamageLog damage_;
  mutable std::atomic<std::uint64_t> damage_samples_{0};
};

}  // namespace

std::unique_ptr<IBatchSource> make_block_source(std::unique_ptr<IBlockFormat> format,
                                                const InputLayout& layout,
                                                const BlockReading& reading) {
  HCTR_CHECK(format != nullptr, "block source: no format");
  return std::make_unique<BlockSource>(std::move(format), layout, reading);
}

}  // namespace hugectr
