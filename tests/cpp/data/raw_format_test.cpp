// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/raw_format.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "core/cpp/base/error.hpp"
#include "core/cpp/data/block_source.hpp"
#include "tests/cpp/data/norm_data.hpp"

namespace hugectr {
namespace {

using testing::append;

/// Five samples (label i, one dense number, two keys in the first slot and one in the second); the
/// dense numbers of the second and the last have no logarithm.
std::string damaged_samples() {
  std::string bytes;
  for (std::int32_t i = 0; i < 5; ++i) {
    append(bytes, i);
    append(bytes, i == 1 || i == 4 ? -7 : i);
    for (std::int32_t key = 0; key < 3; ++key) append(bytes, 10 * i + key);
  }
  return bytes;
}

template <class T>
std::vector<T> values(const StagingArray& array, std::size_t count) {
  return {array.as<T>(), array.as<T>() + count};
}

void expect_only_good_samples(bool direct, bool i64_keys) {
  const testing::TempFolder folder;
  testing::write_bytes(folder / "raw.bin", damaged_samples());
  InputLayout layout = testing::make_layout(1, 1, i64_keys, {{2, 1}});
  layout.sparse[0].is_fixed_length = true;
  RawReading raw;
  raw.on_bad_data = OnBadData::Skip;
  raw.direct = direct;
  raw.block_bytes = 40;  // two samples
  const auto source = make_block_source(make_raw_format(folder / "raw.bin", layout, raw), layout,
                                        {.repeat = false, .on_bad_data = OnBadData::Skip});
  CSRChunk chunk = make_csr_chunk(layout, 6, make_host_memory_resource());
  const auto batch = source->make_raw_batch();
  ASSERT_TRUE(source->claim(*batch, 6));
  source->parse(*batch, 6, chunk);
  EXPECT_EQ(chunk.samples, 5u);
  EXPECT_EQ(chunk.skipped, 2u);
  EXPECT_EQ(values<float>(chunk.weight, 6), (std::vector<float>{1, 0, 1, 1, 0, 0}));
  EXPECT_EQ(values<float>(chunk.label, 6), (std::vector<float>{0, 0, 2, 3, 0, 0}));
  const HostCsr& csr = chunk.sparse[0];
  EXPECT_EQ(values<offset_t>(csr.row_offsets, 13),
            (std::vector<offset_t>{0, 2, 3, 3, 3, 5, 6, 8, 9, 9, 9, 9, 9}));
  ASSERT_EQ(csr.nnz, 9u);
  std::vector<std::int64_t> keys;
  for (std::size_t k = 0; k < 9; ++k) {
    keys.push_back(i64_keys ? csr.keys.as<std::int64_t>()[k] : csr.keys.as<std::uint32_t>()[k]);
  }
  EXPECT_EQ(keys, (std::vector<std::int64_t>{0, 1, 2, 20, 21, 22, 30, 31, 32}));
}

TEST(raw_format, skipped_samples_leave_no_keys) {
  for (const bool direct : {false, true}) {
    for (const bool i64_keys : {false, true}) expect_only_good_samples(direct, i64_keys);
  }
}

TEST(raw_format, a_refused_source_can_be_replaced) {
  const testing::TempFolder folder;
  testing::write_bytes(folder / "raw.bin", damaged_samples());
  testing::write_bytes(folder / "empty.bin", "");
  InputLayout layout = testing::make_layout(1, 1, false, {{2, 1}});
  layout.sparse[0].is_fixed_length = true;
  RawReading raw;
  raw.on_bad_data = OnBadData::Skip;
  const auto reader =
      make_data_reader(make_block_source(make_raw_format(folder / "raw.bin", layout, raw), layout,
                                         {.on_bad_data = OnBadData::Skip}),
                       layout, 5, 1, ResourceManager::create({{0}}, 1));
  testing::HostBatch first, again;
  ASSERT_TRUE(testing::next_batch(*reader, &first));
  // Nothing to repeat. Whoever looks at the numbers, or moves on, is answered all the same.
  EXPECT_THROW(reader->set_source(folder / "empty.bin"), InvalidArgument);
  EXPECT_GE(reader->metrics().rows_decoded, 5u);
  EXPECT_THROW(reader->seek({}), InvalidArgument);
  EXPECT_THROW(reader->acquire(), InvalidArgument);
  reader->set_source(folder / "raw.bin");
  ASSERT_TRUE(testing::next_batch(*reader, &again));
  EXPECT_TRUE(first == again);
}

}  // namespace
}  // namespace hugectr
