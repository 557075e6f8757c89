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
  raw.keys = RawKeys::All;
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
  raw.keys = RawKeys::All;
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

/// The keys and row offsets of all samples of a file of `words`, one label and no dense number
/// each.
struct ReadKeys {
  std::size_t samples = 0;
  std::vector<std::uint32_t> keys;
  std::vector<offset_t> offsets;
};

ReadKeys read_keys(const std::vector<std::int32_t>& words, RawReading raw) {
  const testing::TempFolder folder;
  std::string bytes;
  for (const std::int32_t word : words) append(bytes, word);
  testing::write_bytes(folder / "raw.bin", bytes);
  const InputLayout layout = testing::make_layout(1, 0, false, {{2, 1}});
  const auto source = make_block_source(make_raw_format(folder / "raw.bin", layout, raw), layout,
                                        {.repeat = false});
  CSRChunk chunk = make_csr_chunk(layout, 16, make_host_memory_resource());
  const auto batch = source->make_raw_batch();
  EXPECT_TRUE(source->claim(*batch, 16));
  source->parse(*batch, 16, chunk);
  const HostCsr& csr = chunk.sparse[0];
  return {chunk.samples, values<std::uint32_t>(csr.keys, csr.nnz),
          values<offset_t>(csr.row_offsets, 2 * chunk.samples + 1)};
}

std::string refusal_of(const std::vector<std::int32_t>& words, const RawReading& raw) {
  try {
    read_keys(words, raw);
  } catch (const DataError& error) {
    return error.what();
  }
  return "nothing was refused";
}

// Twelve words are four samples of a label and a key a slot, or three with nnz_per_slot = 2, 1.
const std::vector<std::int32_t> kTwelve{0, 10, 11, 1, 12, 13, 0, 14, 15, 1, 16, 17};

TEST(raw_format, the_size_of_the_file_says_how_many_keys_a_slot_holds) {
  RawReading raw;
  for (const std::uint64_t samples : {std::uint64_t{0}, std::uint64_t{4}}) {
    raw.num_samples = samples;
    const ReadKeys one = read_keys(kTwelve, raw);
    EXPECT_EQ(one.samples, 4u);
    EXPECT_EQ(one.keys, (std::vector<std::uint32_t>{10, 11, 12, 13, 14, 15, 16, 17}));
    EXPECT_EQ(one.offsets, (std::vector<offset_t>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  }
  raw.num_samples = 3;
  const ReadKeys all = read_keys(kTwelve, raw);
  EXPECT_EQ(all.samples, 3u);
  EXPECT_EQ(all.keys, (std::vector<std::uint32_t>{10, 11, 1, 13, 0, 14, 1, 16, 17}));
  EXPECT_EQ(all.offsets, (std::vector<offset_t>{0, 2, 3, 5, 6, 8, 9}));
}

TEST(raw_format, samples_of_no_bytes_are_refused) {
  const testing::TempFolder folder;
  testing::write_bytes(folder / "raw.bin", "eight by");
  const InputLayout layout = testing::make_layout(0, 0, true, {{0, 0}});
  for (const RawKeys keys : {RawKeys::BySize, RawKeys::All}) {
    RawReading raw;
    raw.keys = keys;
    EXPECT_THROW(make_raw_format(folder / "raw.bin", layout, raw), InvalidArgument);
  }
}

TEST(raw_format, a_multi_hot_reader_takes_all_keys) {
  RawReading raw;
  raw.keys = RawKeys::All;
  EXPECT_EQ(read_keys(kTwelve, raw).samples, 3u);
  raw.num_samples = 4;
  EXPECT_NE(refusal_of(kTwelve, raw).find("holds 3 samples, num_samples says 4"),
            std::string::npos);
}

TEST(raw_format, a_size_that_fits_neither_sample_names_both) {
  RawReading raw;
  raw.num_samples = 5;
  const std::string refused = refusal_of(kTwelve, raw);
  EXPECT_NE(refused.find("48 bytes; 5 samples"), std::string::npos) << refused;
  EXPECT_NE(refused.find("12 bytes each with one key a slot"), std::string::npos) << refused;
  EXPECT_NE(refused.find("16 bytes with nnz_per_slot keys"), std::string::npos) << refused;
  raw.num_samples = 0;
  const std::string damaged = refusal_of({0, 1, 2, 3}, raw);
  EXPECT_NE(damaged.find("not a multiple of the 12 bytes"), std::string::npos) << damaged;
  EXPECT_NE(damaged.find("16 bytes with nnz_per_slot keys"), std::string::npos) << damaged;
}

TEST(raw_format, offsets_are_those_of_the_slot_with_one_key_and_with_several) {
  RawReading raw;
  raw.slot_offsets = {0, 1000};
  EXPECT_EQ(read_keys(kTwelve, raw).keys,
            (std::vector<std::uint32_t>{10, 1011, 12, 1013, 14, 1015, 16, 1017}));
  raw.keys = RawKeys::All;
  EXPECT_EQ(read_keys(kTwelve, raw).keys,
            (std::vector<std::uint32_t>{10, 11, 1001, 13, 0, 1014, 1, 16, 1017}));
}

TEST(raw_format, labels_and_dense_numbers_have_a_type_each) {
  const testing::TempFolder folder;
  std::string bytes;
  append(bytes, std::int32_t{1});
  append(bytes, 0.25f);
  testing::write_bytes(folder / "raw.bin", bytes);
  const InputLayout layout = testing::make_layout(1, 1, false, {});
  RawReading raw;
  raw.numbers = {.float_label = false, .float_dense = true};
  const auto source = make_block_source(make_raw_format(folder / "raw.bin", layout, raw), layout,
                                        {.repeat = false});
  CSRChunk chunk = make_csr_chunk(layout, 1, make_host_memory_resource());
  const auto batch = source->make_raw_batch();
  ASSERT_TRUE(source->claim(*batch, 1));
  source->parse(*batch, 1, chunk);
  EXPECT_EQ(chunk.label.as<float>()[0], 1.0f);
  EXPECT_EQ(chunk.dense.as<float>()[0], 0.25f);
}

}  // namespace
}  // namespace hugectr
