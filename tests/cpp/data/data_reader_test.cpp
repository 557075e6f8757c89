// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/data_reader.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <map>
#include <thread>

#include "core/cpp/base/error.hpp"
#include "tests/cpp/data/norm_data.hpp"

namespace hugectr {
namespace {

using testing::HostBatch;
using testing::Sample;
using testing::TempFolder;

std::shared_ptr<ResourceManager> make_devices(int count) {
  std::vector<int> ids;
  for (int i = 0; i < count; ++i) ids.push_back(i);
  return ResourceManager::create({ids}, 1);
}

std::vector<HostBatch> read_batches(IDataReader& reader, std::size_t most = 1000000) {
  std::vector<HostBatch> batches;
  HostBatch batch;
  while (batches.size() < most && testing::next_batch(reader, &batch)) batches.push_back(batch);
  return batches;
}

/// Multi-hot data over files of very different sizes.
class DataReaderTest : public ::testing::Test {
 protected:
  InputLayout layout_ = testing::make_layout(1, 3, true, {{2, 3}, {1, 1, 1}});
  TempFolder folder_;
  std::vector<std::string> files_;
  std::size_t samples_ = 0;

  std::string write(std::initializer_list<std::size_t> counts, Check check = Check::Sum) {
    std::mt19937 random(std::random_device{}());
    for (const std::size_t count : counts) {
      files_.push_back(folder_ / ("part" + std::to_string(files_.size())));
      const auto samples = testing::make_samples(layout_, count, samples_, random);
      testing::write_bytes(files_.back(), testing::norm_bytes(samples, layout_, check));
      samples_ += count;
    }
    return testing::write_list(folder_, files_);
  }
  std::unique_ptr<IDataReader> reader(const std::string& list, std::size_t batch,
                                      std::size_t workers, bool repeat, int devices = 1,
                                      OnBadData policy = OnBadData::Error) {
    return make_data_reader(testing::norm_source(list, layout_, Check::Sum, repeat, policy),
                            layout_, batch, workers, make_devices(devices));
  }
};

TEST_F(DataReaderTest, EverySampleOncePerEpochWhateverTheWorkersAndDevices) {
  const std::string list = write({300, 1, 0, 77, 1020});
  std::vector<HostBatch> expected;
  for (const std::size_t workers : {1, 2, 3, 8, 17}) {
    for (const int devices : {1, 4}) {
      const auto data = reader(list, 64, workers, false, devices);
      const std::vector<HostBatch> batches = read_batches(*data);
      EXPECT_TRUE(data->is_eof());
      EXPECT_EQ(data->acquire(), nullptr);
      ASSERT_EQ(batches.size(), (samples_ + 63) / 64);
      std::size_t id = 0;
      for (const HostBatch& batch : batches) {
        const bool last = &batch == &batches.back();
        ASSERT_EQ(batch.samples, last ? samples_ % 64 : 64);
        ASSERT_EQ(batch.weight_sum, static_cast<double>(batch.samples));
        for (std::size_t i = 0; i < 64; ++i) {
          const bool real = i < batch.samples;
          ASSERT_EQ(batch.label[i], real ? static_cast<float>(id++) : 0.0f);
          ASSERT_EQ(batch.weight[i], real ? 1.0f : 0.0f);
        }
        for (const auto& rows : batch.row_offsets) {  // padding has no keys
          const std::size_t slots = (rows.size() - 1) / 64;
          ASSERT_EQ(rows[batch.samples * slots], rows.back());
        }
      }
      ASSERT_EQ(id, samples_);
      if (expected.empty()) expected = batches;
      ASSERT_TRUE(batches == expected) << workers << " workers, " << devices << " devices";
    }
  }
}

TEST_F(DataReaderTest, RepeatWrapsInsideABatchAndNeverEnds) {
  const std::string list = write({10, 23});
  std::vector<HostBatch> expected;
  for (const std::size_t workers : {1, 8}) {
    const auto data = reader(list, 50, workers, true, 2);
    const std::vector<HostBatch> batches = read_batches(*data, 40);
    std::size_t id = 0;
    for (const HostBatch& batch : batches) {
      ASSERT_EQ(batch.samples, 50u);
      for (const float label : batch.label) ASSERT_EQ(label, static_cast<float>(id++ % 33));
    }
    EXPECT_FALSE(data->is_eof());
    if (expected.empty()) expected = batches;
    EXPECT_TRUE(batches == expected);
  }
}

TEST_F(DataReaderTest, SetSourceStartsOverFromAnywhere) {
  const std::string list = write({500});
  const auto data = reader(list, 16, 4, false);
  const std::vector<HostBatch> all = read_batches(*data);
  for (const std::size_t count : {0, 1, 7, 100}) {
    data->set_source("");
    EXPECT_FALSE(data->is_eof());
    const std::vector<HostBatch> some = read_batches(*data, count);
    EXPECT_TRUE(some == std::vector<HostBatch>(all.begin(), all.begin() + some.size()));
  }
  files_ = {files_[0], files_[0]};
  testing::write_list(folder_, files_, "twice.txt");
  data->set_source(folder_ / "twice.txt");
  EXPECT_EQ(read_batches(*data).size(), 63u);
  EXPECT_THROW(data->set_source(folder_ / "none.txt"), DataError);
  EXPECT_THROW(data->acquire(), DataError);
  EXPECT_THROW(data->acquire(), DataError);
  data->set_source(list);
  EXPECT_TRUE(read_batches(*data) == all);
}

TEST_F(DataReaderTest, AnErrorComesInItsPlaceAndAgainUntilSetSource) {
  const std::string list = write({100, 100});
  std::string bytes = testing::norm_bytes({}, layout_, Check::Sum);
  std::mt19937 random(3);
  const auto samples = testing::make_samples(layout_, 100, 100, random);
  bytes = testing::norm_bytes(samples, layout_, Check::Sum);
  bytes[bytes.size() - 4] ^= 8;  // in the last sample of the second file
  testing::write_bytes(files_[1], bytes);
  for (const std::size_t workers : {1, 8}) {
    const auto data = reader(list, 16, workers, false);
    EXPECT_EQ(read_batches(*data, 12).size(), 12u);  // samples 0 to 191 are fine
    for (int i = 0; i < 3; ++i) EXPECT_THROW(data->acquire(), DataError);
    data->set_source("");
    EXPECT_EQ(read_batches(*data, 12).size(), 12u);
    EXPECT_THROW(data->acquire(), DataError);
    testing::write_list(folder_, {files_[0]}, "good.txt");
    data->set_source(folder_ / "good.txt");
    EXPECT_EQ(read_batches(*data).size(), 7u);
  }
  const auto skipping = reader(list, 16, 8, false, 1, OnBadData::Skip);
  const std::vector<HostBatch> batches = read_batches(*skipping);
  ASSERT_EQ(batches.size(), 13u);
  EXPECT_EQ(batches.back().samples, 8u);
  EXPECT_EQ(batches.back().weight_sum, 7.0);
  EXPECT_EQ(batches.back().weight[7], 0.0f);
  EXPECT_EQ(skipping->metrics().bad_samples, 1u);
  EXPECT_EQ(skipping->metrics().bad_samples, 0u);
}

TEST_F(DataReaderTest, DestructionNeverHangs) {
  const std::string list = write({2000});
  testing::write_list(folder_, {folder_ / "missing"}, "bad.txt");
  for (int round = 0; round < 30; ++round) {
    const auto idle = reader(list, 8, 5, true);
    const auto started = reader(list, 8, 5, true, 2);
    started->start();
    const auto used = reader(list, 8, 5, false, 2);
    read_batches(*used, static_cast<std::size_t>(round));
    const auto failing = reader(folder_ / "bad.txt", 8, 5, true);
    failing->start();
  }
}

TEST_F(DataReaderTest, AtMostThreeBatchesAreHeld) {
  const std::string list = write({200});
  const auto data = reader(list, 8, 2, true);
  std::vector<Batch*> held;
  for (std::size_t i = 0; i < IDataReader::kSlots; ++i) held.push_back(data->acquire());
  EXPECT_THROW(data->acquire(), InvalidArgument);
  EXPECT_THROW(data->set_source(""), InvalidArgument);
  data->release(held[1]);  // any order
  EXPECT_THROW(data->release(held[1]), InvalidArgument);
  EXPECT_EQ(data->acquire()->sequence, 3u);
}

TEST_F(DataReaderTest, ABatchIsNotOverwrittenBeforeItsConsumersAreDone) {
  const std::string list = write({4000});
  const auto devices = make_devices(2);
  const auto data =
      make_data_reader(testing::norm_source(list, layout_, Check::Sum, false, OnBadData::Error),
                       layout_, 40, 4, devices);
  std::atomic<int> wrong{0};
  std::size_t sequence = 0;
  while (Batch* batch = data->acquire()) {
    for (std::size_t id = 0; id < 2; ++id) {
      DeviceBatch& device = batch->devices[id];
      Stream& stream = devices->get_local_gpu(id).compute_stream();
      stream.wait(*device.ready);
      const float* label = device.label.ptr<float>();
      const float first = static_cast<float>(sequence * 40 + id * 20);
      stream.submit([&wrong, label, first] {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        for (int i = 0; i < 20; ++i) wrong += label[i] != first + static_cast<float>(i);
      });
      stream.record(*device.consumed);
    }
    data->release(batch);  // the device has not even begun
    ++sequence;
  }
  devices->synchronize();
  EXPECT_EQ(sequence, 100u);
  EXPECT_EQ(wrong, 0);
}

TEST_F(DataReaderTest, DeviceBuffersGrowWithTheKeys) {
  layout_ = testing::make_layout(1, 0, false, {{400}});
  std::mt19937 random(5);
  auto samples = testing::make_samples(layout_, 64, 0, random);
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i].keys[0].resize(i * 6, 11);
  testing::write_bytes(folder_ / "growing", testing::norm_bytes(samples, layout_, Check::Sum));
  const auto data = reader(testing::write_list(folder_, {folder_ / "growing"}), 4, 3, false, 2);
  const std::vector<HostBatch> batches = read_batches(*data);
  ASSERT_EQ(batches.size(), 16u);
  for (std::size_t i = 0; i < 64; ++i) {
    const auto& rows = batches[i / 4].row_offsets[0];
    const auto* keys = batches[i / 4].keys[0].data();
    EXPECT_EQ(std::vector<std::int64_t>(keys + rows[i % 4], keys + rows[i % 4 + 1]),
              samples[i].keys[0]);
  }
}

TEST_F(DataReaderTest, MetricsCountBatchesAndTime) {
  const std::string list = write({1000});
  const auto data = reader(list, 10, 3, false);
  read_batches(*data);
  const ReaderMetrics metrics = data->metrics();
  EXPECT_EQ(metrics.batches, 100u);
  EXPECT_GT(metrics.parse_seconds, 0);
  EXPECT_GT(metrics.ready_seconds, 0);
  EXPECT_GT(metrics.acquire_seconds, 0);
  EXPECT_EQ(metrics.bad_samples, 0u);
  EXPECT_EQ(data->metrics().batches, 0u);
}

TEST_F(DataReaderTest, ArgumentsAreChecked) {
  const std::string list = write({10});
  EXPECT_THROW(reader(list, 10, 0, false), InvalidArgument);
  EXPECT_THROW(reader(list, 0, 1, false), InvalidArgument);
  EXPECT_THROW(reader(list, 10, 1, false, 4), InvalidArgument);
  layout_.sparse[0].nnz_per_slot.pop_back();
  EXPECT_THROW(reader(list, 10, 1, false), InvalidArgument);
}

/// A source that breaks in ways a format would not.
class BrokenSource final : public IBatchSource {
 public:
  enum class At { MakeRaw, Claim, Parse };
  explicit BrokenSource(At at) : at_(at) {}
  std::unique_ptr<RawBatch> make_raw_batch() const override {
    if (at_ == At::MakeRaw) throw std::bad_alloc();
    return std::make_unique<RawBatch>();
  }
  bool claim(RawBatch& raw, std::size_t batch) override {
    if (at_ == At::Claim && ++claims_ == 4) throw OutOfMemory("claim");
    raw.samples = batch;
    return true;
  }
  void parse(const RawBatch&, std::size_t batch, CSRChunk& chunk) const override {
    chunk.samples = batch;
    pad_samples({1, 0, false, {}}, 0, batch, chunk);
    if (at_ == At::Parse && chunk.sequence == 3) throw std::runtime_error("parse");
  }
  void set_source(const std::string&) override { claims_ = 0; }
  void seek(const ReadPosition&) override { claims_ = 0; }
  std::uint64_t rows_decoded() const override { return 0; }
  std::uint64_t bad_samples() const override { return 0; }

 private:
  At at_;
  int claims_ = 0;
};

TEST(DataReader, ExceptionsOfAnySourceReachTheCaller) {
  const InputLayout layout{1, 0, false, {}};
  for (const auto at :
       {BrokenSource::At::MakeRaw, BrokenSource::At::Claim, BrokenSource::At::Parse}) {
    const auto data =
        make_data_reader(std::make_unique<BrokenSource>(at), layout, 4, 6, make_devices(2));
    for (int round = 0; round < 3; ++round) {
      std::vector<HostBatch> batches;
      EXPECT_ANY_THROW(while (true) {
        HostBatch batch;
        testing::next_batch(*data, &batch);
        batches.push_back(batch);
      });
      EXPECT_EQ(batches.size(), at == BrokenSource::At::MakeRaw ? 0u : 3u);
      EXPECT_ANY_THROW(data->acquire());
      data->set_source("");
    }
  }
}

}  // namespace
}  // namespace hugectr
