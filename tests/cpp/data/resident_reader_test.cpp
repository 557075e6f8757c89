// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/resident_reader.hpp"

#include <gtest/gtest.h>

#include "core/cpp/base/error.hpp"
#include "core/cpp/data/norm_format.hpp"
#include "tests/cpp/data/norm_data.hpp"

namespace hugectr {
namespace {

using testing::HostBatch;

class ResidentReaderTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kBatch = 24;

  std::string write(const std::string& name, std::size_t samples) {
    std::mt19937 random(std::random_device{}());
    const auto data = testing::make_samples(layout_, samples, 1000 * ++files_, random);
    testing::write_bytes(folder_ / name, testing::norm_bytes(data, layout_, Check::Sum));
    return testing::write_list(folder_, {folder_ / name}, name + ".txt");
  }
  std::unique_ptr<IDataReader> plain(const std::string& list, bool repeat = true) {
    return make_data_reader(
        testing::norm_source(list, layout_, Check::Sum, repeat, OnBadData::Error), layout_, kBatch,
        2, devices_);
  }
  std::unique_ptr<IDataReader> resident(const std::string& list, std::size_t batches,
                                        bool repeat = true) {
    return make_resident_reader([=, this] { return plain(list, repeat); }, batches, devices_);
  }
  static std::vector<HostBatch> read(IDataReader& reader, std::size_t batches) {
    std::vector<HostBatch> result(batches);
    for (HostBatch& batch : result) EXPECT_TRUE(testing::next_batch(reader, &batch));
    return result;
  }

  InputLayout layout_ = testing::make_layout(1, 3, true, {{2, 3}, {1, 1, 1}});
  testing::TempFolder folder_;
  std::size_t files_ = 0;
  std::shared_ptr<ResourceManager> devices_ = ResourceManager::create({{0, 1}}, 1);
};

TEST_F(ResidentReaderTest, ServesTheFirstBatchesInTurn) {
  const std::string list = write("part", 5 * kBatch + 7);
  const std::vector<HostBatch> expected = read(*plain(list), 4);
  EXPECT_NE(expected[0].keys, expected[1].keys);
  const auto reader = resident(list, 4);
  reader->start();
  const std::vector<HostBatch> got = read(*reader, 11);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], expected[i % 4]) << i;
  EXPECT_FALSE(reader->is_eof());
  EXPECT_EQ(reader->batch_size(), kBatch);
  EXPECT_EQ(reader->metrics().batches, 11u);
  EXPECT_EQ(reader->metrics().batches, 0u);
}

TEST_F(ResidentReaderTest, HoldsAsManyAsAnyReader) {
  const auto reader = resident(write("part", 60), 2);
  std::vector<Batch*> held;
  for (std::size_t i = 0; i < IDataReader::kSlots; ++i) held.push_back(reader->acquire());
  EXPECT_EQ(held[0], held[2]);  // the third is the first again
  EXPECT_THROW(reader->acquire(), InvalidArgument);
  EXPECT_THROW(reader->set_source(""), InvalidArgument);
  for (Batch* batch : held) reader->release(batch);
  EXPECT_THROW(reader->release(held[0]), InvalidArgument);
}

TEST_F(ResidentReaderTest, StartsOverAndTakesAnotherSource) {
  const std::string first = write("first", 100), second = write("second", 100);
  const auto reader = resident(first, 3);
  const std::vector<HostBatch> before = read(*reader, 2);
  reader->set_source("");
  EXPECT_EQ(read(*reader, 2), before);
  reader->set_source(second);
  EXPECT_EQ(read(*reader, 3), read(*plain(second), 3));
  EXPECT_THROW(reader->set_source(folder_ / "none.txt"), std::exception);
  reader->set_source(first);
  EXPECT_EQ(read(*reader, 2), before);
}

TEST_F(ResidentReaderTest, GoesOnWhereABatchEnded) {
  const std::string list = write("part", 100);
  const auto reader = resident(list, 3);
  Batch* const first = reader->acquire();
  const ReadPosition after_first = first->next;
  reader->release(first);
  const std::vector<HostBatch> rest = read(*reader, 4);
  const auto again = resident(list, 3);
  again->seek(after_first);
  EXPECT_EQ(read(*again, 4), rest);
  again->seek({});
  EXPECT_EQ(read(*again, 3)[1], rest[0]);
  EXPECT_THROW(again->seek({.epoch = 7, .sample = 3}), InvalidArgument);
}

TEST_F(ResidentReaderTest, DataThatEndsAndNoBatchesAreErrors) {
  const std::string list = write("part", 30);
  const auto reader = resident(list, 5, false);
  try {
    reader->acquire();
    FAIL();
  } catch (const InvalidArgument& e) {
    EXPECT_NE(std::string(e.what()).find("ends after 2 batches"), std::string::npos) << e.what();
  }
  EXPECT_THROW(resident(list, 0), InvalidArgument);
}

}  // namespace
}  // namespace hugectr
