// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <random>
#include <thread>

#include "core/cpp/base/error.hpp"
#include "core/cpp/data/block_source.hpp"
#include "core/cpp/data/data_reader.hpp"

namespace hugectr {
namespace {

const InputLayout kLayout{1, 0, false, {}};

/// Bytes of the blocks that exist, and the most there were at a time.
struct Held {
  std::atomic<std::int64_t> now{0}, most{0};
  void add(std::int64_t bytes) {
    const std::int64_t held = now += bytes;
    std::int64_t seen = most;
    while (held > seen && !most.compare_exchange_weak(seen, held)) {
    }
  }
};

/// Blocks that count their bytes while they exist, decoding included; labels number the samples.
class SizedFormat final : public IBlockFormat {
 public:
  SizedFormat(std::vector<BlockInfo> blocks, std::shared_ptr<Held> held)
      : blocks_(std::move(blocks)), held_(std::move(held)) {}
  const std::vector<std::string>& files() const override { return files_; }
  const std::vector<BlockInfo>& blocks() const override { return blocks_; }
  void set_source(const std::string&) override {}
  std::shared_ptr<const IBlock> decode(std::size_t index) override {
    std::uint64_t first = 0;
    for (std::size_t b = 0; b < index; ++b) first += blocks_[b].rows;
    auto block =
        std::make_shared<Block>(first, static_cast<std::int64_t>(blocks_[index].bytes), held_);
    std::this_thread::yield();
    return block;
  }

 private:
  class Block final : public IBlock {
   public:
    Block(std::uint64_t first, std::int64_t bytes, std::shared_ptr<Held> held)
        : first_(first), bytes_(bytes), held_(std::move(held)) {
      held_->add(bytes_);
    }
    ~Block() override { held_->add(-bytes_); }
    std::size_t key_count(std::size_t, std::size_t, std::size_t) const override { return 0; }
    std::size_t copy_rows(std::size_t first, std::size_t count, std::size_t at,
                          CSRChunk& chunk) const override {
      for (std::size_t i = 0; i < count; ++i) {
        chunk.label.as<float>()[at + i] = static_cast<float>(first_ + first + i);
        chunk.weight.as<float>()[at + i] = 1.0f;
      }
      return 0;
    }

   private:
    std::uint64_t first_;
    std::int64_t bytes_;
    std::shared_ptr<Held> held_;
  };

  std::vector<std::string> files_{"sized"};
  std::vector<BlockInfo> blocks_;
  std::shared_ptr<Held> held_;
};

std::vector<BlockInfo> sized_blocks(std::uint64_t* rows) {
  std::mt19937_64 random(11);
  std::vector<BlockInfo> blocks(120);
  *rows = 0;
  for (BlockInfo& block : blocks) {
    block.rows = 1 + random() % 50;
    block.bytes = 1 + random() % 1000;
    *rows += block.rows;
  }
  return blocks;
}

std::uint64_t bytes_of(const BlockInfo& block) { return block.bytes; }

/// The most bytes of the blocks that one batch of the linear order touches.
std::uint64_t needed_at_once(const std::vector<BlockInfo>& blocks, std::uint64_t batch) {
  std::uint64_t most = 0, rows = 0;
  for (const BlockInfo& block : blocks) rows += block.rows;
  for (std::uint64_t begin = 0; begin < rows; begin += batch) {
    std::uint64_t at = 0, bytes = 0;
    for (const BlockInfo& block : blocks) {
      if (at < begin + batch && at + block.rows > begin) bytes += block.bytes;
      at += block.rows;
    }
    most = std::max(most, bytes);
  }
  return most;
}

std::vector<float> read_epoch(const std::vector<BlockInfo>& blocks, const BlockReading& reading,
                              std::size_t batch, std::size_t workers,
                              const std::shared_ptr<Held>& held) {
  const auto reader = make_data_reader(
      make_block_source(std::make_unique<SizedFormat>(blocks, held), kLayout, reading), kLayout,
      batch, workers, ResourceManager::create({{0}}, 1, DeviceType::Cpu));
  std::vector<float> labels;
  while (Batch* got = reader->acquire()) {
    got->devices[0].ready->synchronize();
    const float* label = got->devices[0].label.ptr<float>();
    labels.insert(labels.end(), label, label + got->samples);
    reader->release(got);
  }
  return labels;
}

BlockReading reading_of(std::size_t threads, std::uint64_t budget) {
  BlockReading reading;
  reading.repeat = false;
  reading.decode_threads = threads;
  reading.read_ahead_bytes = budget;
  return reading;
}

TEST(block_budget, memory_stays_within_the_budget_and_one_batch) {
  std::uint64_t rows = 0;
  const auto blocks = sized_blocks(&rows);
  std::vector<float> expected(rows);
  std::iota(expected.begin(), expected.end(), 0.0f);
  const std::uint64_t largest = bytes_of(
      *std::max_element(blocks.begin(), blocks.end(),
                        [](const BlockInfo& a, const BlockInfo& b) { return a.bytes < b.bytes; }));
  for (const std::size_t workers : {1, 2, 8}) {
    for (const std::uint64_t budget : {0, 1000, 5000}) {
      for (const std::size_t batch : {7, 64, 400}) {
        const auto held = std::make_shared<Held>();
        EXPECT_EQ(read_epoch(blocks, reading_of(workers, budget), batch, workers, held), expected);
        EXPECT_LE(static_cast<std::uint64_t>(held->most),
                  std::max(budget, largest) + needed_at_once(blocks, batch) + largest)
            << workers << " workers, budget " << budget << ", batch " << batch;
        EXPECT_EQ(held->now, 0);
      }
    }
  }
}

TEST(block_budget, every_sample_comes_once_whatever_the_budget_and_window) {
  std::uint64_t rows = 0;
  const auto blocks = sized_blocks(&rows);
  std::vector<float> first;
  for (const std::size_t workers : {1, 3, 8}) {
    for (const std::uint64_t budget : {std::uint64_t{0}, std::uint64_t{2000}, ~std::uint64_t{0}}) {
      BlockReading reading = reading_of(workers, budget);
      reading.shuffle = {.seed = 9, .files = true, .blocks = true, .window = 700};
      const auto held = std::make_shared<Held>();
      auto labels = read_epoch(blocks, reading, 33, workers, held);
      if (first.empty()) first = labels;
      EXPECT_EQ(labels, first);
      std::sort(labels.begin(), labels.end());
      ASSERT_EQ(labels.size(), rows);
      for (std::uint64_t i = 0; i < rows; ++i) ASSERT_EQ(labels[i], static_cast<float>(i));
    }
  }
}

TEST(block_budget, blocks_of_no_bytes_are_decoded_ahead_under_any_budget) {
  const std::vector<BlockInfo> blocks(60, BlockInfo{0, 10, 0});
  const auto held = std::make_shared<Held>();
  EXPECT_EQ(read_epoch(blocks, reading_of(4, 0), 25, 4, held).size(), 600u);
}

/// A batch that was claimed and is never parsed must not keep the others from their blocks.
TEST(block_budget, a_batch_that_is_claimed_over_is_forgotten) {
  const std::vector<BlockInfo> blocks(8, BlockInfo{0, 10, 100});
  const auto held = std::make_shared<Held>();
  const auto source =
      make_block_source(std::make_unique<SizedFormat>(blocks, held), kLayout, reading_of(2, 0));
  const auto mine = source->make_raw_batch(), other = source->make_raw_batch();
  CSRChunk chunk = make_csr_chunk(kLayout, 10, make_host_memory_resource());
  ASSERT_TRUE(source->claim(*mine, 10));
  ASSERT_TRUE(source->claim(*other, 10));
  ASSERT_TRUE(source->claim(*mine, 10));  // instead of parsing the first
  source->parse(*other, 10, chunk);
  EXPECT_EQ(chunk.label.as<float>()[0], 10.0f);
  source->parse(*mine, 10, chunk);
  EXPECT_EQ(chunk.label.as<float>()[0], 20.0f);
}

}  // namespace
}  // namespace hugectr
