// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/norm_format.hpp"

#include <gtest/gtest.h>

#include "core/cpp/base/error.hpp"
#include "tests/cpp/data/norm_data.hpp"

namespace hugectr {
namespace {

using testing::Sample;
using testing::TempFolder;

/// The batches of one pass, read by one thread straight from the source.
struct Collected {
  std::vector<Sample> samples;
  std::vector<float> weights;
  std::vector<std::size_t> sizes;
};

Collected read_epoch(IBatchSource& source, const InputLayout& layout, std::size_t batch,
                     std::size_t most_batches = 1000) {
  Collected result;
  auto raw = source.make_raw_batch();
  CSRChunk chunk = make_csr_chunk(layout, batch, make_host_memory_resource());
  while (most_batches-- > 0 && source.claim(*raw, batch)) {
    source.parse(*raw, batch, chunk);
    result.sizes.push_back(chunk.samples);
    for (std::size_t i = 0; i < batch; ++i) {
      Sample sample;
      const float* label = chunk.label.as<float>() + i * layout.label_dim;
      const float* dense = chunk.dense.as<float>() + i * layout.dense_dim;
      sample.label.assign(label, label + layout.label_dim);
      sample.dense.assign(dense, dense + layout.dense_dim);
      for (std::size_t k = 0; k < layout.sparse.size(); ++k) {
        const std::size_t slots = layout.sparse[k].slot_num;
        const offset_t* rows = chunk.sparse[k].row_offsets.as<offset_t>() + i * slots;
        for (std::size_t s = 0; s < slots; ++s) {
          auto& keys = sample.keys.emplace_back();
          for (offset_t at = rows[s]; at < rows[s + 1]; ++at) {
            keys.push_back(layout.i64_keys ? chunk.sparse[k].keys.as<std::int64_t>()[at]
                                           : chunk.sparse[k].keys.as<std::uint32_t>()[at]);
          }
        }
      }
      result.samples.push_back(std::move(sample));
      result.weights.push_back(chunk.weight.as<float>()[i]);
    }
  }
  return result;
}

void expect_same(const Sample& found, const Sample& expected, std::size_t index) {
  EXPECT_EQ(found.label, expected.label) << "sample " << index;
  EXPECT_EQ(found.dense, expected.dense) << "sample " << index;
  EXPECT_EQ(found.keys, expected.keys) << "sample " << index;
}

/// Runs f, which must throw DataError, and returns its text.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const DataError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no DataError";
  return {};
}

void expect_text(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << text;
}

struct Case {
  Check check;
  bool i64;
  std::vector<std::vector<int>> inputs;
};

class NormContent : public ::testing::TestWithParam<Case> {};

TEST_P(NormContent, IsWhatWasWrittenOverFilesAndBatches) {
  const auto& [check, i64, inputs] = GetParam();
  const InputLayout layout = testing::make_layout(2, 3, i64, inputs);
  std::mt19937 random(std::random_device{}());
  TempFolder folder;
  std::vector<Sample> all;
  std::vector<std::string> files;
  for (const std::size_t count : {5, 0, 1, 700, 13}) {
    const auto samples = testing::make_samples(layout, count, all.size(), random);
    files.push_back(folder / ("part" + std::to_string(files.size())));
    testing::write_bytes(files.back(), testing::norm_bytes(samples, layout, check));
    all.insert(all.end(), samples.begin(), samples.end());
  }
  const std::string list = testing::write_list(folder, files);
  for (const std::size_t batch : {1, 7, 64, 719, 1000}) {
    const auto source = testing::norm_source(list, layout, check, false, OnBadData::Error,
                                             testing::kRangeBytes[batch % 3]);
    const Collected found = read_epoch(*source, layout, batch);
    std::size_t total = 0;
    for (const std::size_t size : found.sizes) total += size;
    ASSERT_EQ(total, all.size()) << "batch " << batch;
    for (std::size_t i = 0; i < found.samples.size(); ++i) {
      const bool real = i < all.size();
      ASSERT_EQ(found.weights[i], real ? 1.0f : 0.0f);
      Sample padding{std::vector<float>(2), std::vector<float>(3), {}};
      padding.keys.resize(layout.total_slots());
      expect_same(found.samples[i], real ? all[i] : padding, i);
      if (HasFailure()) return;
    }
  }
  const auto repeating = testing::norm_source(list, layout, check, true, OnBadData::Error, 3000);
  const Collected wrapped = read_epoch(*repeating, layout, 500, 4);
  ASSERT_EQ(wrapped.sizes, std::vector<std::size_t>(4, 500));
  for (std::size_t i = 0; i < 2000; ++i) {
    expect_same(wrapped.samples[i], all[i % all.size()], i);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, NormContent,
                         ::testing::Values(Case{Check::Sum, false, {std::vector<int>(26, 1)}},
                                           Case{Check::None, false, {std::vector<int>(26, 1)}},
                                           Case{Check::Sum, true, {{1, 1, 1}}},
                                           Case{Check::None, true, {{1, 1, 1}}},
                                           Case{Check::Sum, false, {{30}, {1, 1, 1, 1}}},
                                           Case{Check::None, false, {{2, 5}, {1}, {0, 3}}},
                                           Case{Check::None, true, {{2, 5}, {9}}},
                                           Case{Check::Sum, false, {}}));

class NormErrors : public ::testing::Test {
 protected:
  InputLayout layout_ = testing::make_layout(1, 2, false, {{3, 3}});
  std::mt19937 random_{7};
  TempFolder folder_;
  std::vector<Sample> samples_ = testing::make_samples(layout_, 20, 0, random_);

  std::string list_of(const std::string& bytes) {
    testing::write_bytes(folder_ / "data", bytes);
    return testing::write_list(folder_, {folder_ / "data"});
  }
  std::string error_for(const std::string& bytes, const InputLayout& layout, Check check) {
    const std::string list = list_of(bytes);
    return error_of([&] {
      const auto source = testing::norm_source(list, layout, check, false, OnBadData::Error);
      read_epoch(*source, layout, 8);
    });
  }
  std::string good(Check check) const { return testing::norm_bytes(samples_, layout_, check); }
};

TEST_F(NormErrors, FileListsAreNamed) {
  const auto error_for_list = [&](const std::string& text) {
    testing::write_bytes(folder_ / "list", text);
    return error_of([&] {
      testing::norm_source(folder_ / "list", layout_, Check::Sum, false, OnBadData::Skip);
    });
  };
  expect_text(error_of([&] {
                testing::norm_source(folder_ / "missing", layout_, Check::Sum, false,
                                     OnBadData::Skip);
              }),
              {"missing", "can not be opened"});
  expect_text(error_for_list(""), {"list'", "is empty"});
  expect_text(error_for_list("three\na\n"), {"line 1 is 'three'"});
  expect_text(error_for_list("0\n"), {"line 1 is '0'"});
  expect_text(error_for_list("-1\na\n"), {"line 1 is '-1'"});
  expect_text(error_for_list("3\na\nb\n\n"), {"says 3 files", "2 paths"});
  expect_text(error_for_list("\xEF\xBB\xBF"
                             "2\r\na\r\n"),
              {"says 2 files", "1 paths"});
  expect_text(error_of([&] {
                testing::norm_source(std::filesystem::temp_directory_path().string(), layout_,
                                     Check::Sum, false, OnBadData::Error);
              }),
              {"is a folder"});
}

TEST_F(NormErrors, HeadersThatDoNotFitSayWhatToChange) {
  expect_text(error_for(good(Check::None), layout_, Check::Sum), {"check_type Check_t.Non"});
  expect_text(error_for(good(Check::Sum), layout_, Check::None), {"check_type Check_t.Sum"});
  InputLayout other = layout_;
  other.label_dim = 2;
  expect_text(error_for(good(Check::Sum), other, Check::Sum),
              {"data'", "byte offset 20", "label_dim in the header is 1, allowed is 2"});
  other = layout_;
  other.dense_dim = 13;
  expect_text(error_for(good(Check::None), other, Check::None),
              {"byte offset 24", "dense_dim in the header is 2, allowed is 13"});
  other = testing::make_layout(1, 2, false, {{3, 3}, {1}});
  expect_text(error_for(good(Check::None), other, Check::None),
              {"slot_num in the header is 2, allowed is 3"});
  std::string bytes = good(Check::None);
  bytes[15] = '\x80';
  expect_text(error_for(bytes, layout_, Check::None), {"number_of_records in the header is -"});
  bytes = good(Check::Sum);
  bytes[13] ^= 1;
  expect_text(error_for(bytes, layout_, Check::Sum), {"header's checksum is wrong"});
  expect_text(error_for(bytes.substr(0, 40), layout_, Check::Sum), {"ends inside the header"});
  expect_text(error_for("", layout_, Check::None), {"byte offset 0", "ends inside the header"});
  std::filesystem::remove(folder_ / "data");
  expect_text(error_of([&] {
                const std::string list = testing::write_list(folder_, {folder_ / "data"});
                read_epoch(
                    *testing::norm_source(list, layout_, Check::Sum, false, OnBadData::Error),
                    layout_, 8);
              }),
              {"can not be opened", "working directory"});
}

TEST_F(NormErrors, RecordsNameTheirByteOffset) {
  const std::size_t first = 69, size0 = testing::norm_payload(samples_[0], false).size();
  const std::string offset1 = "byte offset " + std::to_string(first + size0 + 5);
  std::string bytes = good(Check::Sum);
  bytes[first + size0 + 5 + 6] ^= 4;
  expect_text(error_for(bytes, layout_, Check::Sum), {offset1.c_str(), "checksum"});
  bytes = good(Check::Sum);
  bytes[first + size0 + 5 + 3] = '\x7f';
  expect_text(error_for(bytes, layout_, Check::Sum), {offset1.c_str(), "length of the record"});
  bytes = good(Check::None);
  bytes[64 + 12 + 3] = '\xff';
  expect_text(error_for(bytes, layout_, Check::None),
              {"byte offset 64", "nnz -", "slot 0 of 'sparse0'", "0 to 6", "on_bad_data"});
  bytes = good(Check::None);
  bytes[64 + 12] = 7;
  expect_text(error_for(bytes, layout_, Check::None), {"nnz 7", "0 to 6"});
  bytes = good(Check::Sum);
  expect_text(error_for(bytes.substr(0, bytes.size() - 1), layout_, Check::Sum),
              {"ends inside record 19 of 20"});
  bytes = good(Check::None);
  expect_text(error_for(bytes.substr(0, bytes.size() - 1), layout_, Check::None),
              {"ends inside record 19 of 20"});
  expect_text(error_for(good(Check::None) + "xyz", layout_, Check::None), {"3 bytes follow"});
  expect_text(error_for(good(Check::Sum) + "x", layout_, Check::Sum), {"1 bytes follow"});
}

TEST_F(NormErrors, FixedLengthSlotsMayHaveFewerKeysAndNotMore) {
  InputLayout fixed = layout_;
  fixed.sparse[0].is_fixed_length = true;
  samples_ = testing::make_samples(fixed, 20, 0, random_);
  samples_[3].keys[1].pop_back();
  samples_[4].keys[0].clear();
  testing::write_bytes(folder_ / "data", testing::norm_bytes(samples_, fixed, Check::Sum));
  const std::string list = testing::write_list(folder_, {folder_ / "data"});
  const auto source = testing::norm_source(list, fixed, Check::Sum, false, OnBadData::Error);
  const Collected found = read_epoch(*source, fixed, 10);
  for (std::size_t i = 0; i < samples_.size(); ++i) expect_same(found.samples[i], samples_[i], i);
  samples_[3].keys[1].resize(7, 5);
  expect_text(error_for(testing::norm_bytes(samples_, fixed, Check::None), fixed, Check::None),
              {"nnz 7 in slot 1", "0 to 6"});
}

TEST_F(NormErrors, TheOtherKeyWidthIsSuggested) {
  for (const Check check : {Check::Sum, Check::None}) {
    for (const bool written_i64 : {false, true}) {
      InputLayout written = testing::make_layout(1, 2, written_i64, {std::vector<int>(26, 1)});
      InputLayout read = written;
      read.i64_keys = !written_i64;
      const auto samples = testing::make_samples(written, 50, 0, random_);
      expect_text(error_for(testing::norm_bytes(samples, written, check), read, check),
                  {written_i64 ? "i64_input_key=True" : "i64_input_key=False"});
    }
  }
}

TEST_F(NormErrors, SkipKeepsThePlaceOfABadSampleAndDropsLostFiles) {
  const InputLayout layout = testing::make_layout(1, 2, false, {{1, 1}});
  const auto samples = testing::make_samples(layout, 20, 0, random_);
  const std::string bytes = testing::norm_bytes(samples, layout, Check::Sum);
  const std::size_t record = testing::norm_payload(samples[0], false).size() + 5;
  std::string bad_sum = bytes, bad_length = bytes, bad_header = bytes;
  bad_sum[69 + 3 * record + 5] ^= 1;      // sample 3 keeps its place
  bad_length[69 + 15 * record + 2] = 99;  // samples 15..19 are lost
  bad_header[9] ^= 1;                     // all are lost, counted once
  std::vector<std::string> files;
  for (const std::string& content : {bad_sum, bad_length, bad_header, bytes}) {
    files.push_back(folder_ / ("part" + std::to_string(files.size())));
    testing::write_bytes(files.back(), content);
  }
  files.push_back(folder_ / "missing");
  const std::string list = testing::write_list(folder_, files);
  const auto source = testing::norm_source(list, layout, Check::Sum, false, OnBadData::Skip);
  const Collected found = read_epoch(*source, layout, 11);
  EXPECT_EQ(found.sizes, (std::vector<std::size_t>{11, 11, 11, 11, 11}));
  EXPECT_EQ(source->bad_samples(), 1u + 5u + 1u + 1u);
  for (std::size_t i = 0; i < 55; ++i) {
    if (i == 3) {
      EXPECT_EQ(found.weights[i], 0.0f);
      expect_same(found.samples[i], Sample{{0}, {0, 0}, {{}, {}}}, i);
    } else {
      EXPECT_EQ(found.weights[i], 1.0f);
      expect_same(found.samples[i], samples[i < 35 ? i % 20 : i - 35], i);
    }
  }
}

TEST_F(NormErrors, NothingReadableIsAnErrorEvenWhenSkipping) {
  const std::string list = list_of(good(Check::Sum).substr(0, 80));
  for (const bool repeat : {false, true}) {
    expect_text(error_of([&] {
                  const auto source =
                      testing::norm_source(list, layout_, Check::Sum, repeat, OnBadData::Skip);
                  read_epoch(*source, layout_, 8);
                }),
                {"none of its 1 files", "ends inside record 0"});
  }
  samples_.clear();
  const std::string empty = list_of(good(Check::None));
  expect_text(error_of([&] {
                const auto source =
                    testing::norm_source(empty, layout_, Check::None, true, OnBadData::Error);
                read_epoch(*source, layout_, 8);
              }),
              {"has any samples"});
}

/// Bytes that this process has read so far.
std::uint64_t bytes_read() {
  std::ifstream counters("/proc/self/io");
  std::string name;
  std::uint64_t value = 0;
  counters >> name >> value;
  EXPECT_EQ(name, "rchar:");
  return value;
}

/// Several files, their samples numbered on.
class NormPasses : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  InputLayout layout_ = testing::make_layout(1, 2, false, {{3, 3}});
  std::mt19937 random_{11};
  TempFolder folder_;
  std::vector<std::string> files_;
  std::uint64_t bytes_ = 0;  ///< of all files

  std::string write(std::initializer_list<std::size_t> counts, Check check = Check::Sum) {
    std::size_t first = 0;
    files_.clear();
    bytes_ = 0;
    for (const std::size_t count : counts) {
      files_.push_back(folder_ / ("part" + std::to_string(files_.size())));
      const std::string bytes = testing::norm_bytes(
          testing::make_samples(layout_, count, first, random_), layout_, check);
      testing::write_bytes(files_.back(), bytes);
      bytes_ += bytes.size();
      first += count;
    }
    return testing::write_list(folder_, files_);
  }
  std::unique_ptr<IBatchSource> source(const std::string& list, bool repeat,
                                       OnBadData policy = OnBadData::Error,
                                       Check check = Check::Sum) const {
    return testing::norm_source(list, layout_, check, repeat, policy, GetParam());
  }
};

TEST_P(NormPasses, NoByteIsReadTwiceNorBeforeItsBatch) {
  const std::string list = write({3000, 2000});
  const std::uint64_t before = bytes_read();
  const auto reader = source(list, false);
  const std::uint64_t ready = bytes_read();
  EXPECT_LT(ready - before, 1000u);
  EXPECT_EQ(read_epoch(*reader, layout_, 64, 3).sizes.size(), 3u);
  const std::uint64_t begun = bytes_read();
  // A block at a time, and never the second file.
  EXPECT_LT(begun - ready, GetParam() == 0 ? 80000u : 20000u);
  read_epoch(*reader, layout_, 64);
  EXPECT_GE(bytes_read() - ready, bytes_);
  EXPECT_LT(bytes_read() - ready, bytes_ + 1000);
}

TEST_P(NormPasses, APlaceIsReachedWithoutWhatLiesBefore) {
  for (const Check check : {Check::Sum, Check::None}) {
    const std::string list = write({40, 0, 60, 20}, check);
    std::vector<ReadPosition> places;
    {
      const auto whole = source(list, false, OnBadData::Error, check);
      const auto raw = whole->make_raw_batch();
      while (whole->claim(*raw, 10)) places.push_back(raw->next);
    }
    ASSERT_EQ(places.size(), 12u);
    EXPECT_EQ(places[3], (ReadPosition{.sample = 40, .file = 1}));  // at the end of the first file
    EXPECT_EQ(places[5].file, 3u);
    EXPECT_EQ(places[5].record, 20u);
    const auto behind = source(list, false, OnBadData::Error, check);
    std::filesystem::remove(files_[0]);
    behind->seek(places[5]);
    const Collected found = read_epoch(*behind, layout_, 10);
    ASSERT_EQ(found.samples.size(), 60u);
    for (std::size_t i = 0; i < 60; ++i) {
      ASSERT_EQ(found.samples[i].label[0], static_cast<float>(60 + i));
    }
    ReadPosition none = places[5];
    none.record = 60;
    EXPECT_THROW(behind->seek(none), InvalidArgument);
    none = places[5];
    none.byte = 0;
    EXPECT_THROW(behind->seek(none), InvalidArgument);
    EXPECT_THROW(behind->seek({.epoch = 1}), InvalidArgument);
  }
}

TEST_P(NormPasses, WhatIsLostComesWithTheBatchThatMeetsIt) {
  ::setenv("HUGECTR_LOG_LEVEL", "4", 1);
  const std::string list = write({20, 20, 20});
  std::string bytes(std::filesystem::file_size(files_[0]), '\0');
  std::ifstream(files_[0], std::ios::binary).read(bytes.data(), static_cast<long>(bytes.size()));
  testing::write_bytes(files_[0], bytes.substr(0, bytes.size() - 1));  // sample 19 is lost
  std::ofstream(files_[1], std::ios::binary | std::ios::app) << "x";   // follows sample 39
  std::ofstream(files_[2], std::ios::binary | std::ios::app) << "x";
  // Samples that are left, whether a batch of that end meets a loss, and where.
  const auto skipping = source(list, true, OnBadData::Skip);
  const auto raw = skipping->make_raw_batch();
  const auto lost_by = [&](std::size_t samples) {
    EXPECT_TRUE(skipping->claim(*raw, samples));
    EXPECT_EQ(raw->lost > 0, !raw->damage.empty());
    return raw->lost;
  };
  for (int pass = 0; pass < 2; ++pass) {
    EXPECT_EQ(lost_by(18), 0u);
    EXPECT_EQ(lost_by(1), 0u);  // all that is left of the first file
    EXPECT_EQ(lost_by(1), 1u);  // the second one is asked for
    EXPECT_NE(raw->damage.find("ends inside record 19"), std::string::npos) << raw->damage;
    EXPECT_EQ(lost_by(18), 0u);
    EXPECT_EQ(lost_by(1), 1u);  // its last record
    EXPECT_NE(raw->damage.find("1 bytes follow"), std::string::npos) << raw->damage;
    EXPECT_EQ(lost_by(20), 1u);  // the third file, all of it
    EXPECT_EQ(skipping->bad_samples(), 3u * static_cast<unsigned>(pass + 1));
    EXPECT_EQ(raw->next,
              (ReadPosition{.epoch = static_cast<std::uint64_t>(pass), .sample = 59, .file = 3}));
  }
  // Strictly, it is the same batches that fail; those before them are whole.
  for (const auto& [good, fails] : {std::pair{19, 1}, {18, 2}}) {
    const auto strict = source(list, false);
    EXPECT_TRUE(strict->claim(*raw, static_cast<std::size_t>(good)));
    EXPECT_EQ(raw->samples, static_cast<std::size_t>(good));
    EXPECT_THROW(strict->claim(*raw, static_cast<std::size_t>(fails)), DataError);
  }
  testing::write_list(folder_, {files_[1]}, "surplus.txt");
  const auto strict = source(folder_ / "surplus.txt", false);
  EXPECT_TRUE(strict->claim(*raw, 19));
  EXPECT_THROW(strict->claim(*raw, 1), DataError);
}

TEST_P(NormPasses, FilesThatChangeBetweenPassesAreReadAsTheyAre) {
  const std::string list = write({10});
  const auto repeating = source(list, true);
  const auto raw = repeating->make_raw_batch();
  EXPECT_TRUE(repeating->claim(*raw, 10));
  write({30});
  EXPECT_TRUE(repeating->claim(*raw, 30));
  EXPECT_EQ(raw->next, (ReadPosition{.epoch = 1, .sample = 30, .file = 1}));
}

INSTANTIATE_TEST_SUITE_P(Ranges, NormPasses, ::testing::ValuesIn(testing::kRangeBytes));

}  // namespace
}  // namespace hugectr
