// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/memory_format.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "core/cpp/base/error.hpp"
#include "core/cpp/data/make_source.hpp"
#include "tests/cpp/data/norm_data.hpp"

namespace hugectr {
namespace {

/// Two samples, one input of two slots: (40,50,10,20 | 30,50,10) and (30,20 | 10).
MemoryData worked_example() {
  MemoryData data;
  data.samples = 2;
  data.label = {1, 0};
  data.dense = {0.5f, 1.5f, 2.5f, 3.5f};
  data.sparse = {{{40, 50, 10, 20, 30, 50, 10, 30, 20, 10}, {0, 4, 7, 9, 10}}};
  return data;
}

std::unique_ptr<IBatchSource> source_of(const MemoryData& data, const InputLayout& layout,
                                        bool repeat) {
  return make_source({.memory = std::make_shared<const MemoryData>(data)}, layout, repeat, true);
}

std::unique_ptr<IDataReader> make_reader(const MemoryData& data, const InputLayout& layout,
                                         std::size_t batch, bool repeat, int devices = 1) {
  std::vector<int> ids;
  for (int i = 0; i < devices; ++i) ids.push_back(i);
  return make_data_reader(source_of(data, layout, repeat), layout, batch, 3,
                          ResourceManager::create({ids}, 1));
}

TEST(MemoryFormat, WorkedExampleReachesEveryDeviceWhole) {
  for (const bool i64 : {false, true}) {
    const InputLayout layout = testing::make_layout(1, 2, i64, {{4, 4}});
    const auto reader = make_reader(worked_example(), layout, 4, false, 2);
    testing::HostBatch batch;
    ASSERT_TRUE(testing::next_batch(*reader, &batch));
    EXPECT_EQ(batch.samples, 2u);
    EXPECT_EQ(batch.label, (std::vector<float>{1, 0, 0, 0}));
    EXPECT_EQ(batch.dense, (std::vector<float>{0.5f, 1.5f, 2.5f, 3.5f, 0, 0, 0, 0}));
    EXPECT_EQ(batch.weight, (std::vector<float>{1, 1, 0, 0}));
    EXPECT_EQ(batch.keys[0], (std::vector<std::int64_t>{40, 50, 10, 20, 30, 50, 10, 30, 20, 10}));
    EXPECT_EQ(batch.row_offsets[0], (std::vector<std::uint32_t>{0, 4, 7, 9, 10, 10, 10, 10, 10}));
    EXPECT_FALSE(testing::next_batch(*reader, &batch));
  }
}

TEST(MemoryFormat, RepeatGoesRoundInsideABatch) {
  const InputLayout layout = testing::make_layout(1, 2, false, {{4, 4}});
  const auto reader = make_reader(worked_example(), layout, 3, true);
  testing::HostBatch batch;
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(testing::next_batch(*reader, &batch));
    const bool odd = i % 2 == 1;
    EXPECT_EQ(batch.samples, 3u);
    EXPECT_EQ(batch.label, odd ? (std::vector<float>{0, 1, 0}) : (std::vector<float>{1, 0, 1}));
    EXPECT_EQ(batch.row_offsets[0], odd ? (std::vector<std::uint32_t>{0, 2, 3, 7, 10, 12, 13})
                                        : (std::vector<std::uint32_t>{0, 4, 7, 9, 10, 14, 17}));
  }
  reader->set_source("");
  ASSERT_TRUE(testing::next_batch(*reader, &batch));
  EXPECT_EQ(batch.label, (std::vector<float>{1, 0, 1}));
  EXPECT_THROW(reader->set_source("file_list.txt"), InvalidArgument);
}

TEST(MemoryFormat, DataThatDoesNotFitIsRefused) {
  const InputLayout layout = testing::make_layout(1, 2, false, {{4, 4}});
  const auto refused = [&](const InputLayout& model, auto change) {
    MemoryData data = worked_example();
    change(data);
    EXPECT_THROW(source_of(data, model, false), InvalidArgument);
  };
  source_of(worked_example(), layout, false);
  refused(layout, [](MemoryData& data) { data.samples = 3; });
  refused(layout, [](MemoryData& data) { data.label.pop_back(); });
  refused(layout, [](MemoryData& data) { data.dense.push_back(1); });
  refused(layout, [](MemoryData& data) { data.sparse.clear(); });
  refused(layout, [](MemoryData& data) { data.sparse[0].row_offsets.pop_back(); });
  refused(layout, [](MemoryData& data) { data.sparse[0].row_offsets[1] = 8; });
  refused(layout, [](MemoryData& data) { data.sparse[0].row_offsets[4] = 9; });
  refused(layout, [](MemoryData& data) { data.sparse[0].keys[3] = -1; });
  refused(layout, [](MemoryData& data) { data.sparse[0].keys[3] = 1ll << 32; });
  refused(testing::make_layout(1, 2, false, {{3, 4}}), [](MemoryData&) {});
  InputLayout fixed = layout;
  fixed.sparse[0].is_fixed_length = true;
  source_of(worked_example(), fixed, false);  // slots with fewer keys
  refused(fixed, [](MemoryData& data) { data.sparse[0].row_offsets[1] = 8; });
  MemoryData none;
  none.sparse = {{{}, {0}}};
  EXPECT_THROW(source_of(none, layout, true), InvalidArgument);
}

/// Samples with their number as label and key; more than a block holds.
MemoryData numbered(std::size_t samples) {
  MemoryData data;
  data.samples = samples;
  data.sparse.resize(1);
  data.sparse[0].row_offsets.push_back(0);
  for (std::size_t i = 0; i < samples; ++i) {
    data.label.push_back(static_cast<float>(i));
    data.sparse[0].keys.push_back(static_cast<std::int64_t>(i));
    data.sparse[0].row_offsets.push_back(i + 1);
  }
  return data;
}

TEST(MemoryFormat, BatchesAndPositionsDoNotShowTheBlocks) {
  const InputLayout layout = testing::make_layout(1, 0, true, {{1}});
  const std::size_t samples = 10000;
  for (const std::size_t batch : {1000, 6000}) {
    const auto reader = make_reader(numbered(samples), layout, batch, true);
    std::vector<ReadPosition> places;
    for (std::size_t b = 0; b < 25; ++b) {
      Batch* const found = reader->acquire();
      found->devices[0].ready->synchronize();
      for (std::size_t i = 0; i < batch; ++i) {
        const std::size_t sample = (b * batch + i) % samples;
        ASSERT_EQ(found->devices[0].label.ptr<float>()[i], static_cast<float>(sample));
        ASSERT_EQ(found->devices[0].sparse[0].keys.ptr<std::int64_t>()[i],
                  static_cast<std::int64_t>(sample));
      }
      // The end of a pass is the beginning of the next one.
      const std::size_t end = (b + 1) * batch;
      ASSERT_EQ(found->next, (ReadPosition{.epoch = end / samples, .sample = end % samples}));
      places.push_back(found->next);
      reader->release(found);
    }
    for (const std::size_t b : {9, 3, 19, 7}) {
      reader->seek(places[b]);
      Batch* const found = reader->acquire();
      found->devices[0].ready->synchronize();
      EXPECT_EQ(found->devices[0].label.ptr<float>()[0],
                static_cast<float>((b + 1) * batch % samples));
      EXPECT_EQ(found->next, places[b + 1]);
      reader->release(found);
    }
    EXPECT_THROW(reader->seek({.sample = samples + 1}), InvalidArgument);
  }
  const auto once = make_reader(numbered(samples), layout, 5000, false);
  for (const std::uint64_t end : {5000, 10000}) {
    Batch* const found = once->acquire();
    EXPECT_EQ(found->next, (ReadPosition{.sample = end}));
    once->release(found);
  }
  EXPECT_EQ(once->acquire(), nullptr);
  EXPECT_THROW(once->seek({.epoch = 1}), InvalidArgument);
}

TEST(MemoryFormat, DamageNamesItsSampleInWhicheverBlock) {
  const InputLayout layout = testing::make_layout(1, 0, true, {{1}});
  MemoryData data = numbered(10000);
  data.label[9001] = std::numeric_limits<float>::quiet_NaN();
  const auto shared = std::make_shared<const MemoryData>(data);
  const auto read = [&](OnBadData policy) {
    const auto source = make_source({.on_bad_data = policy, .memory = shared}, layout, false, true);
    const auto raw = source->make_raw_batch();
    CSRChunk chunk = make_csr_chunk(layout, 10000, make_host_memory_resource());
    EXPECT_TRUE(source->claim(*raw, 10000));
    source->parse(*raw, 10000, chunk);
    EXPECT_EQ(chunk.skipped, 1u);
    EXPECT_EQ(source->bad_samples(), 1u);
    EXPECT_EQ(chunk.weight.as<float>()[9001], 0.0f);
    EXPECT_EQ(chunk.sparse[0].nnz, 9999u);
    return chunk.first_damage;
  };
  EXPECT_TRUE(read(OnBadData::Skip).starts_with("data in memory, sample 9001: "));
  try {
    read(OnBadData::Error);
    ADD_FAILURE();
  } catch (const DataError& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("data in memory, sample 9001: "));
  }
}

}  // namespace
}  // namespace hugectr
