// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/block_source.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <set>
#include <thread>

#include "core/cpp/base/error.hpp"
#include "core/cpp/data/data_reader.hpp"

namespace hugectr {
namespace {

const InputLayout kLayout{1, 0, true, {{"id", {1}, true, 1}}};

/// Blocks whose samples carry their own number as the key; counts what is alive.
class NumberedFormat final : public IBlockFormat {
 public:
  struct Counters {
    std::atomic<int> decoded{0}, alive{0}, most_alive{0};
  };

  NumberedFormat(std::vector<BlockInfo> blocks, std::shared_ptr<Counters> counters,
                 std::set<std::size_t> damaged = {})
      : blocks_(std::move(blocks)), counters_(std::move(counters)), damaged_(std::move(damaged)) {}

  const std::vector<std::string>& files() const override { return files_; }
  const std::vector<BlockInfo>& blocks() const override { return blocks_; }
  void set_source(const std::string&) override {}

  std::shared_ptr<const IBlock> decode(std::size_t block) override {
    ++counters_->decoded;
    // Blocks become ready out of order.
    std::this_thread::sleep_for(std::chrono::microseconds(block * 7919 % 500));
    if (damaged_.count(block)) throw DataError(concat("file 'numbers', block ", block));
    std::uint64_t first = 0;
    for (std::size_t b = 0; b < block; ++b) first += blocks_[b].rows;
    return std::make_shared<Block>(first, counters_);
  }

 private:
  class Block final : public IBlock {
   public:
    Block(std::uint64_t first, std::shared_ptr<Counters> counters)
        : first_(first), counters_(std::move(counters)) {
      const int alive = ++counters_->alive;
      int most = counters_->most_alive;
      while (alive > most && !counters_->most_alive.compare_exchange_weak(most, alive)) {
      }
    }
    ~Block() override { --counters_->alive; }
    std::size_t key_count(std::size_t, std::size_t, std::size_t count) const override {
      return count;
    }
    std::size_t copy_rows(std::size_t first, std::size_t count, std::size_t at,
                          CSRChunk& chunk) const override {
      HostCsr& csr = chunk.sparse[0];
      for (std::size_t i = 0; i < count; ++i) {
        chunk.label.as<float>()[at + i] = 0.0f;
        chunk.weight.as<float>()[at + i] = 1.0f;
        csr.keys.as<std::int64_t>()[csr.nnz + i] = static_cast<std::int64_t>(first_ + first + i);
        csr.row_offsets.as<offset_t>()[at + i] = static_cast<offset_t>(csr.nnz + i);
      }
      csr.nnz += count;
      csr.row_offsets.as<offset_t>()[at + count] = static_cast<offset_t>(csr.nnz);
      return 0;
    }

   private:
    std::uint64_t first_;
    std::shared_ptr<Counters> counters_;
  };

  std::vector<std::string> files_{"numbers"};
  std::vector<BlockInfo> blocks_;
  std::shared_ptr<Counters> counters_;
  std::set<std::size_t> damaged_;
};

std::vector<BlockInfo> random_blocks(std::uint64_t* rows) {
  std::mt19937_64 random(std::random_device{}());
  std::vector<BlockInfo> blocks(40);
  *rows = 0;
  for (BlockInfo& block : blocks) {
    block.rows = 1 + random() % 60;
    *rows += block.rows;
  }
  return blocks;
}

std::unique_ptr<IDataReader> reader_of(const std::vector<BlockInfo>& blocks,
                                       const BlockReading& reading, std::size_t batch,
                                       std::size_t workers,
                                       std::shared_ptr<NumberedFormat::Counters> counters,
                                       const std::set<std::size_t>& damaged = {}) {
  auto source = make_block_source(std::make_unique<NumberedFormat>(blocks, counters, damaged),
                                  kLayout, reading);
  return make_data_reader(std::move(source), kLayout, batch, workers,
                          ResourceManager::create({{0}}, 1, DeviceType::Cpu));
}

/// Numbers of the samples of a batch that count, in order.
std::vector<std::int64_t> numbers_of(const Batch& batch) {
  const DeviceBatch& device = batch.devices[0];
  device.ready->synchronize();
  const auto* keys = device.sparse[0].keys.ptr<std::int64_t>();
  return {keys, keys + device.sparse[0].nnz};
}

std::vector<std::int64_t> read_epoch(IDataReader& reader) {
  std::vector<std::int64_t> numbers;
  while (Batch* batch = reader.acquire()) {
    const auto more = numbers_of(*batch);
    numbers.insert(numbers.end(), more.begin(), more.end());
    reader.release(batch);
  }
  return numbers;
}

TEST(BlockSource, AnEpochHasEverySampleOnceForAnyWorkersBatchAndShuffle) {
  std::uint64_t rows = 0;
  const auto blocks = random_blocks(&rows);
  for (const std::uint64_t window : {0, 37}) {
    std::vector<std::int64_t> first;
    for (const std::size_t workers : {1, 3, 8}) {
      for (const std::size_t batch : {std::size_t{1}, std::size_t{64}, std::size_t{5000}}) {
        BlockReading reading;
        reading.repeat = false;
        reading.decode_threads = workers;
        reading.shuffle = {.seed = 5, .files = window > 0, .blocks = window > 0, .window = window};
        auto counters = std::make_shared<NumberedFormat::Counters>();
        auto reader = reader_of(blocks, reading, batch, workers, counters);
        auto numbers = read_epoch(*reader);
        if (first.empty()) first = numbers;
        EXPECT_EQ(numbers, first);
        std::sort(numbers.begin(), numbers.end());
        ASSERT_EQ(numbers.size(), rows);
        for (std::uint64_t i = 0; i < rows; ++i) EXPECT_EQ(numbers[i], static_cast<int>(i));
        EXPECT_EQ(counters->decoded, 40);
        EXPECT_EQ(counters->alive, 0);
        EXPECT_TRUE(reader->is_eof());
      }
    }
  }
}

TEST(BlockSource, MemoryHoldsTheBlocksUnderWayOnly) {
  const std::vector<BlockInfo> blocks(200, BlockInfo{0, 100});
  auto counters = std::make_shared<NumberedFormat::Counters>();
  BlockReading reading;
  reading.repeat = false;
  reading.decode_threads = 2;
  auto reader = reader_of(blocks, reading, 50, 2, counters);
  EXPECT_EQ(read_epoch(*reader).size(), 20000u);
  // Two threads decode, one more is ready, and the chunks of workers and collector (4 of half a
  // block) touch at most three.
  EXPECT_LE(counters->most_alive, 2 + 1 + 1 + 3);
}

TEST(BlockSource, SeekGoesOnWithTheNextSample) {
  std::uint64_t rows = 0;
  const auto blocks = random_blocks(&rows);
  for (const std::uint64_t window : {0, 41}) {
    BlockReading reading;
    reading.decode_threads = 2;
    reading.shuffle = {.seed = 6, .blocks = window > 0, .window = window};
    std::vector<std::vector<std::int64_t>> batches;
    std::vector<ReadPosition> positions;
    auto counters = std::make_shared<NumberedFormat::Counters>();
    auto reader = reader_of(blocks, reading, 50, 3, counters);
    for (std::uint64_t i = 0; i < 3 * rows / 50; ++i) {
      Batch* batch = reader->acquire();
      batches.push_back(numbers_of(*batch));
      positions.push_back(batch->next);
      reader->release(batch);
    }
    auto other = reader_of(blocks, reading, 50, 1, counters);
    for (std::size_t at = 0; at + 3 < batches.size(); at += 7) {
      other->seek(positions[at]);
      for (std::size_t i = at + 1; i < at + 3; ++i) {
        Batch* batch = other->acquire();
        EXPECT_EQ(numbers_of(*batch), batches[i]);
        EXPECT_EQ(batch->next, positions[i]);
        other->release(batch);
      }
    }
  }
}

TEST(BlockSource, ADamagedBlockIsAnErrorInItsPlaceOrSkipped) {
  const std::vector<BlockInfo> blocks(10, BlockInfo{0, 20});
  auto counters = std::make_shared<NumberedFormat::Counters>();
  BlockReading reading;
  reading.repeat = false;
  auto reader = reader_of(blocks, reading, 20, 3, counters, {4});
  for (int i = 0; i < 4; ++i) {
    Batch* batch = reader->acquire();
    ASSERT_NE(batch, nullptr);
    reader->release(batch);
  }
  EXPECT_THROW(reader->acquire(), DataError);

  reading.on_bad_data = OnBadData::Skip;
  auto skipping = reader_of(blocks, reading, 30, 3, counters, {4, 9});
  double weight = 0;
  std::size_t samples = 0;
  while (Batch* batch = skipping->acquire()) {
    weight += batch->weight_sum;
    samples += batch->samples;
    skipping->release(batch);
  }
  EXPECT_EQ(samples, 200u);
  EXPECT_EQ(weight, 160.0);
  EXPECT_EQ(skipping->metrics().bad_samples, 40u);
}

TEST(BlockSource, APlaceThatIsNotThereIsRefused) {
  const std::vector<BlockInfo> blocks(2, BlockInfo{0, 20});
  BlockReading reading;
  reading.repeat = false;
  auto reader = reader_of(blocks, reading, 20, 1, std::make_shared<NumberedFormat::Counters>());
  EXPECT_THROW(reader->seek({.epoch = 0, .sample = 41}), InvalidArgument);
  EXPECT_THROW(reader->seek({.epoch = 1, .sample = 0}), InvalidArgument);
  reader->seek({.epoch = 0, .sample = 40});
  EXPECT_EQ(reader->acquire(), nullptr);
}

}  // namespace
}  // namespace hugectr
