// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/memory_source.hpp"

#include <gtest/gtest.h>

#include "core/cpp/base/error.hpp"
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

std::unique_ptr<IDataReader> make_reader(const MemoryData& data, const InputLayout& layout,
                                         std::size_t batch, bool repeat, int devices = 1) {
  std::vector<int> ids;
  for (int i = 0; i < devices; ++i) ids.push_back(i);
  return make_data_reader(
      make_memory_source(std::make_shared<const MemoryData>(data), layout, repeat), layout, batch,
      3, ResourceManager::create({ids}, 1));
}

TEST(MemorySource, WorkedExampleReachesEveryDeviceWhole) {
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

TEST(MemorySource, RepeatGoesRoundInsideABatch) {
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

TEST(MemorySource, DataThatDoesNotFitIsRefused) {
  const InputLayout layout = testing::make_layout(1, 2, false, {{4, 4}});
  const auto refused = [&](const InputLayout& model, auto change) {
    MemoryData data = worked_example();
    change(data);
    EXPECT_THROW(make_memory_source(std::make_shared<const MemoryData>(data), model, false),
                 InvalidArgument);
  };
  make_memory_source(std::make_shared<const MemoryData>(worked_example()), layout, false);
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
  refused(fixed, [](MemoryData&) {});
  MemoryData none;
  none.sparse = {{{}, {0}}};
  EXPECT_THROW(make_memory_source(std::make_shared<const MemoryData>(none), layout, true),
               InvalidArgument);
}

}  // namespace
}  // namespace hugectr
