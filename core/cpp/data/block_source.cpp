// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/block_source.hpp"

#include <atomic>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/data/block_feed.hpp"
#include "core/cpp/data/damage_log.hpp"
#include "core/cpp/data/process_agreement.hpp"

namespace hugectr {
namespace {

class BlockSource final : public IBatchSource {
 public:
  BlockSource(std::unique_ptr<IBlockFormat> format, const InputLayout& layout,
              const BlockReading& reading)
      : format_(std::move(format)), layout_(layout), reading_(reading) {
    layout_.check();
    begin();
  }

  std::unique_ptr<RawBatch> make_raw_batch() const override {
    return std::make_unique<BlockBatch>();
  }

  bool claim(RawBatch& raw, std::size_t batch) override {
    auto& mine = static_cast<BlockBatch&>(raw);
    feed_->finished(mine.number);  // if nobody parsed it
    mine.runs.clear();
    mine.samples = 0;
    mine.lost = 0;
    mine.damage.clear();
    mine.number = ++claims_;
    feed_->claim(mine, batch);
    return mine.samples > 0;
  }

  void parse(const RawBatch& raw, std::size_t batch, CSRChunk& chunk) const override {
    const auto& mine = static_cast<const BlockBatch&>(raw);
    const Parsing parsing{*feed_, mine.number};
    chunk.samples = mine.samples;
    chunk.skipped = 0;
    chunk.lost = mine.lost;
    chunk.first_damage = mine.damage;
    chunk.runs.clear();
    std::vector<BlockRun> runs;
    for (const BlockRun& run : mine.runs) {
      if (reading_.shard.owns(run.visit)) runs.push_back(run);
      if (reading_.shard.count > 1) append_owner(run, chunk.runs);
    }
    std::vector<std::shared_ptr<const IBlock>> blocks;
    for (const BlockRun& run : runs) {
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
      const BlockRun& run = runs[r];
      // All blocks are there before the first row is looked at, in whichever process.
      placed(batch + run.sample, [&] {
        chunk.skipped += blocks[r] ? blocks[r]->copy_rows(run.first, run.count, at, chunk)
                                   : skip_rows(run, at, chunk);
      });
      at += run.count;
      blocks[r].reset();  // before its bytes count as free
      feed_->done(run);
    }
    damage_samples_ += chunk.skipped;
    if (reading_.shard.count == 1) pad_samples(layout_, at, batch, chunk);
  }

  std::size_t sharing_processes() const override { return reading_.shard.count; }

  void set_source(const std::string& source) override {
    decoded_before_ = rows_decoded();
    lost_before_ = lost_samples();
    feed_.reset();  // its threads decode blocks of the old files: they end before those go
    try {
      format_->set_source(source);
    } catch (...) {
      begin();
      throw;
    }
    begin();
  }

  void seek(const ReadPosition& position) override {
    HCTR_CHECK(feed_ != nullptr, "the source was refused: set one that has samples");
    feed_->seek(position);
  }

  // There is no feed behind a source that was refused.
  std::uint64_t rows_decoded() const override {
    return decoded_before_ + (feed_ ? feed_->rows_decoded() : 0);
  }
  std::uint64_t bad_samples() const override {
    return damage_samples_ + format_->bad_samples() + lost_samples();
  }

 private:
  /// However parsing ends, the next batch is the oldest then.
  struct Parsing {
    IBlockFeed& feed;
    std::uint64_t number;
    ~Parsing() { feed.finished(number); }
  };

  std::uint64_t lost_samples() const { return lost_before_ + (feed_ ? feed_->lost_samples() : 0); }

  void begin() {
    auto walk = format_->walk({});
    feed_ = walk ? make_walked_blocks(*format_, std::move(walk), reading_)
                 : make_listed_blocks(*format_, reading_);
  }

  /// The decoded block of a run, or nullptr when it is damaged and to be skipped.
  std::shared_ptr<const IBlock> block_of(const BlockRun& run,
                                         const std::vector<std::shared_ptr<const IBlock>>& before,
                                         const std::vector<BlockRun>& runs, std::uint64_t batch,
                                         CSRChunk& chunk) const {
    if (run.block) return run.block;
    if (!before.empty() && runs[before.size() - 1].visit == run.visit) return before.back();
    try {
      return feed_->block(run, batch);
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

  void append_owner(const BlockRun& run, std::vector<BatchRun>& runs) const {
    const std::size_t owner = reading_.shard.owner(run.visit);
    if (runs.empty() || runs.back().process != owner) runs.push_back({owner, 0});
    runs.back().samples += run.count;
  }

  std::size_t skip_rows(const BlockRun& run, std::size_t at, CSRChunk& chunk) const {
    // Padding and skipped samples look the same; what follows overwrites what is too much.
    pad_samples(layout_, at, at + run.count, chunk);
    return run.count;
  }

  std::unique_ptr<IBlockFormat> format_;
  const InputLayout layout_;
  const BlockReading reading_;
  std::unique_ptr<IBlockFeed> feed_;
  std::uint64_t decoded_before_ = 0, lost_before_ = 0;  ///< rows and samples, by former feeds
  std::uint64_t claims_ = 0;
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
