// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "core/cpp/data/data_reader.hpp"

namespace hugectr {
namespace {

const InputLayout kLayout{1, 0, false, {}};
constexpr std::size_t kWorkers = 8, kBatches = 40;

/// Counts what is parsed; batches may be parsed up to the one that was allowed last.
class PermittedSource final : public IBatchSource {
 public:
  struct Gate {
    std::atomic<std::size_t> allowed, parsed{0};
    explicit Gate(std::size_t batches) : allowed(batches) {}
    void allow(std::size_t batches) {
      allowed += batches;
      allowed.notify_all();
    }
  };
  explicit PermittedSource(std::shared_ptr<Gate> gate) : gate_(std::move(gate)) {}
  std::unique_ptr<RawBatch> make_raw_batch() const override { return std::make_unique<RawBatch>(); }
  bool claim(RawBatch& raw, std::size_t batch) override {
    raw.samples = batch;
    raw.next.sample = claimed_++;
    return true;
  }
  void parse(const RawBatch& raw, std::size_t batch, CSRChunk& chunk) const override {
    for (std::size_t seen = gate_->allowed; seen <= raw.next.sample; seen = gate_->allowed) {
      gate_->allowed.wait(seen);
    }
    chunk.samples = raw.samples;
    pad_samples(kLayout, 0, batch, chunk);
    ++gate_->parsed;
  }
  void set_source(const std::string&) override {}
  void seek(const ReadPosition&) override {}
  std::uint64_t rows_decoded() const override { return 0; }
  std::uint64_t bad_samples() const override { return 0; }

 private:
  std::shared_ptr<Gate> gate_;
  std::uint64_t claimed_ = 0;
};

TEST(reader_depths, a_slow_step_finds_full_queues) {
  const auto gate = std::make_shared<PermittedSource::Gate>(1 << 20);
  const auto data = make_data_reader(std::make_unique<PermittedSource>(gate), kLayout, 4, kWorkers,
                                     ResourceManager::create({{0}}, 1));
  data->start();
  for (std::size_t taken = 0; taken < kBatches; ++taken) {
    // Three batches on the device (the last of them still has its chunk), a chunk in the
    // collector's hand, and all others parsed: then everybody waits for the step.
    while (gate->parsed < taken + IDataReader::kSlots + 1 + kWorkers) {
      std::this_thread::yield();
    }
    data->release(data->acquire());
  }
  const ReaderMetrics metrics = data->metrics();
  EXPECT_EQ(metrics.acquired, kBatches);
  EXPECT_EQ(metrics.slots, IDataReader::kSlots);
  EXPECT_EQ(metrics.chunks, kWorkers + 2);
  EXPECT_GE(metrics.ahead_depth, 2.0);
  EXPECT_GE(metrics.ready_depth, kWorkers / 2.0);
  EXPECT_LE(metrics.credit_depth, 2.0);
}

TEST(reader_depths, a_slow_source_leaves_queues_empty) {
  const auto gate = std::make_shared<PermittedSource::Gate>(0);
  const auto data = make_data_reader(std::make_unique<PermittedSource>(gate), kLayout, 4, kWorkers,
                                     ResourceManager::create({{0}}, 1));
  for (std::size_t taken = 0; taken < kBatches; ++taken) {
    gate->allow(1);  // one batch at a time comes to be
    data->release(data->acquire());
  }
  const ReaderMetrics metrics = data->metrics();
  EXPECT_EQ(metrics.acquired, kBatches);
  EXPECT_LE(metrics.ahead_depth, 1.0);
  EXPECT_LE(metrics.ready_depth, 1.0);
  gate->allow(1 << 20);  // lets the workers end
}

}  // namespace
}  // namespace hugectr
