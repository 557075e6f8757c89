// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "core/cpp/base/error.hpp"
#include "core/cpp/data/make_source.hpp"
#include "core/cpp/data/norm_format.hpp"
#include "core/cpp/data/raw_format.hpp"
#include "core/cpp/data/resident_reader.hpp"
#include "tests/cpp/data/shared_data.hpp"

namespace hugectr {
namespace {

using testing::JobBatch;
using testing::JobProcess;
using testing::ProcessRead;
using testing::Sample;
using testing::TempFolder;

enum class Kind { Norm, Raw, Table };

/// The same samples in every format; blocks far smaller than a batch.
class SharedReading : public ::testing::TestWithParam<Kind> {
 protected:
  static constexpr std::size_t kSamples = 1011;
  const bool raw_ = GetParam() == Kind::Raw;  // a format of fixed nnz
  // The last input has slots of more keys than one byte counts.
  InputLayout layout_ =
      raw_ ? testing::make_layout(2, 3, false, {{2, 3}, {1, 1, 1}})
           : testing::make_layout(2, 3, GetParam() == Kind::Norm, {{2, 3}, {1, 1, 1}, {300}});
  std::random_device::result_type seed_ = std::random_device{}();
  std::mt19937 random_{seed_};
  TempFolder folder_;
  std::shared_ptr<const std::vector<Sample>> samples_;
  std::vector<std::uint64_t> blocks_;
  std::string list_;

  SharedReading() {
    for (SparseInput& input : layout_.sparse) input.is_fixed_length = raw_;
    samples_ = std::make_shared<const std::vector<Sample>>(
        testing::make_samples(layout_, kSamples, 0, random_));
    std::vector<std::string> files;
    std::size_t first = 0;
    for (const std::size_t count : {300, 1, 0, 77, 633}) {
      files.push_back(folder_ / ("part" + std::to_string(files.size())));
      const std::vector<Sample> part(
          samples_->begin() + static_cast<std::ptrdiff_t>(first),
          samples_->begin() + static_cast<std::ptrdiff_t>(first + count));
      testing::write_bytes(files.back(), testing::norm_bytes(part, layout_, Check::Sum));
      first += count;
    }
    list_ = testing::write_list(folder_, files);
    testing::write_bytes(folder_ / "raw", testing::raw_bytes(*samples_));
    for (std::uint64_t left = kSamples; left > 0;) {
      blocks_.push_back(std::min<std::uint64_t>(left, 1 + random_() % 40));
      left -= blocks_.back();
    }
  }

  std::unique_ptr<IBatchSource> source(const JobProcess& process, bool repeat,
                                       ShuffleSpec shuffle = {}) const {
    BlockReading reading;
    reading.repeat = repeat;
    reading.shuffle = shuffle;
    reading.decode_threads = 2;
    reading.shard = {process.rank, process.size};
    if (GetParam() == Kind::Norm) {
      if (!process.group) {
        return testing::norm_source(list_, layout_, Check::Sum, repeat, OnBadData::Error);
      }
      return make_block_source(make_norm_format(list_, layout_, Check::Sum, OnBadData::Error,
                                                process.group->duplicate("norm"), 9000),
                               layout_, reading);
    }
    if (raw_) {
      RawReading raw;
      raw.numbers = {.float_label = true, .float_dense = true};
      raw.keys = RawKeys::All;
      raw.block_bytes = 700;
      raw.direct = process.rank % 2 == 1;
      return make_block_source(make_raw_format(folder_ / "raw", layout_, raw), layout_, reading);
    }
    return make_block_source(testing::make_table_format(samples_, blocks_, layout_), layout_,
                             reading);
  }

  std::vector<ProcessRead> read(std::size_t processes, std::size_t devices, std::size_t workers,
                                bool repeat, ShuffleSpec shuffle = {},
                                std::size_t most = 1000000) const {
    return testing::read_job(
        processes, devices, workers, 64, layout_,
        [&](const JobProcess& process) { return source(process, repeat, shuffle); }, most);
  }
};

TEST_P(SharedReading, TheBatchesOfOneProcess) {
  SCOPED_TRACE(concat("seed ", seed_));
  const std::vector<JobBatch> expected = read(1, 1, 2, false)[0].batches;
  ASSERT_EQ(expected.size(), (kSamples + 63) / 64);
  EXPECT_EQ(expected.back().batch.samples, kSamples % 64);
  for (std::size_t i = 0; i < kSamples; ++i) {
    ASSERT_EQ(expected[i / 64].batch.label[i % 64 * 2], static_cast<float>(i));
  }
  for (const std::size_t processes : {1, 2, 4}) {
    for (const std::size_t devices : {1, 2}) {
      for (const std::size_t workers : {1, 3, 8}) {
        const std::vector<ProcessRead> reads = read(processes, devices, workers, false);
        ASSERT_TRUE(testing::join(reads) == expected)
            << processes << " processes, " << devices << " devices, " << workers << " workers";
        std::uint64_t rows = 0;
        for (const ProcessRead& one : reads) {
          rows += one.rows_decoded;
          EXPECT_EQ(one.error, "");
          EXPECT_EQ(one.rows_decoded < kSamples, processes > 1);
        }
        EXPECT_EQ(rows, kSamples);
      }
    }
  }
}

TEST_P(SharedReading, OverTheBordersOfEpochs) {
  SCOPED_TRACE(concat("seed ", seed_));
  std::vector<ShuffleSpec> shuffles{{}};
  if (GetParam() != Kind::Norm) {
    shuffles.push_back({.seed = 3, .blocks = true});
    shuffles.push_back({.seed = 4, .blocks = true, .window = 130});
  }
  for (const ShuffleSpec& shuffle : shuffles) {
    const auto expected = read(1, 1, 3, true, shuffle, 50)[0].batches;
    for (const std::size_t processes : {2, 4}) {
      ASSERT_TRUE(testing::join(read(processes, 2, 3, true, shuffle, 50)) == expected)
          << processes << " processes, window " << shuffle.window;
    }
  }
}

TEST_P(SharedReading, GlobalSamplesGoWhereTheirDeviceIs) {
  const auto expected = read(1, 1, 2, false)[0].batches;
  std::vector<ProcessRead> reads(2);
  const auto read_one = [&](const JobProcess& process) {
    const auto reader = make_data_reader(source(process, false), layout_, 64, 2, process.resources);
    reads[process.rank] = testing::read_all(*reader);
  };
  testing::run_job(2, 2, read_one, DeviceLayout::NodeFirst);
  for (std::size_t b = 0; b < expected.size(); ++b) {
    for (std::size_t p = 0; p < 2; ++p) {
      // Process p has devices p and 2 + p, so quarters p and 2 + p of the batch.
      const std::vector<float>& all = expected[b].batch.label;
      std::vector<float> own;
      for (const std::size_t quarter : {p, 2 + p}) {
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(quarter * 32);
        own.insert(own.end(), begin, begin + 32);
      }
      ASSERT_EQ(reads[p].batches[b].batch.label, own);
      ASSERT_EQ(reads[p].batches[b].batch.keys, expected[b].batch.keys);
    }
  }
}

TEST_P(SharedReading, APlaceOfAnyJobIsReachedByAnyOther) {
  const auto expected = read(1, 1, 3, true, {}, 40)[0].batches;
  for (const std::size_t processes : {1, 2, 4}) {
    std::vector<ProcessRead> reads(processes);
    testing::run_job(processes, 1, [&](const JobProcess& process) {
      const auto reader =
          make_data_reader(source(process, true), layout_, 64, 3, process.resources);
      for (std::size_t at = 0; at + 3 < expected.size(); at += 5) {
        reader->seek(expected[at].next);
        ProcessRead some = testing::read_all(*reader, 2);
        auto& all = reads[process.rank].batches;
        all.insert(all.end(), some.batches.begin(), some.batches.end());
      }
      EXPECT_THROW(reader->seek({.epoch = 0, .sample = kSamples + 1, .file = 9}), InvalidArgument);
    });
    const std::vector<JobBatch> batches = testing::join(reads);
    for (std::size_t at = 0, i = 0; at + 3 < expected.size(); at += 5, i += 2) {
      ASSERT_TRUE(batches[i] == expected[at + 1] && batches[i + 1] == expected[at + 2])
          << processes << " processes, place " << at;
    }
  }
}

TEST_P(SharedReading, StopsAndStartsAnywhereWithoutMixing) {
  SCOPED_TRACE(concat("seed ", seed_));
  const auto expected = read(1, 1, 3, true, {}, 20)[0].batches;
  const std::vector<std::size_t> counts{0, 1, 7, 3, 15, 2, 0, 5};
  for (int round = 0; round < 6; ++round) {
    const std::size_t processes = round % 2 == 0 ? 2 : 4;
    std::vector<std::vector<ProcessRead>> passes(counts.size(),
                                                 std::vector<ProcessRead>(processes));
    testing::run_job(processes, 1, [&](const JobProcess& process) {
      // Each process has times of its own.
      std::mt19937 random(static_cast<unsigned>(seed_ + 31 * round + process.rank));
      const auto rest = [&] {
        if (random() % 2) std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
      };
      const auto reader =
          make_data_reader(source(process, true), layout_, 64, 1 + random() % 4, process.resources);
      for (std::size_t i = 0; i < counts.size(); ++i) {
        for (std::size_t b = 0; b < counts[i]; ++b) {
          rest();
          ProcessRead one = testing::read_all(*reader, 1);
          ASSERT_EQ(one.error, "");
          passes[i][process.rank].batches.push_back(one.batches.at(0));
        }
        rest();
        if (i % 3 == 0) reader->start();
        i % 2 == 0 ? reader->set_source("") : reader->seek({});
      }
      const auto unused =
          make_data_reader(source(process, true), layout_, 64, 2, process.resources);
      const auto started =
          make_data_reader(source(process, true), layout_, 64, 2, process.resources);
      started->start();
      rest();
    });
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const std::vector<JobBatch> batches = testing::join(passes[i]);
      ASSERT_EQ(batches.size(), counts[i]);
      ASSERT_TRUE(std::equal(batches.begin(), batches.end(), expected.begin())) << "pass " << i;
    }
  }
}

TEST_P(SharedReading, AClosedReaderIsOpenedBySettingItsSource) {
  const auto expected = read(1, 1, 3, true, {}, 3)[0].batches;
  std::vector<ProcessRead> reads(2);
  testing::run_job(2, 1, [&](const JobProcess& process) {
    const auto reader = make_data_reader(source(process, true), layout_, 64, 2, process.resources);
    reader->start();
    testing::read_all(*reader, 1);
    for (int i = 0; i < 2; ++i) reader->close();
    EXPECT_THROW(reader->acquire(), InvalidArgument);
    reader->start();
    EXPECT_THROW(reader->acquire(), InvalidArgument);
    reader->set_source("");
    reads[process.rank] = testing::read_all(*reader, 3);
  });
  EXPECT_TRUE(testing::join(reads) == expected);
}

TEST_P(SharedReading, ResidentBatchesOnTop) {
  const auto expected = read(1, 1, 3, true, {}, 5)[0].batches;
  std::vector<ProcessRead> reads(2);
  testing::run_job(2, 1, [&](const JobProcess& process) {
    const auto reader = make_resident_reader(
        [&] { return make_data_reader(source(process, true), layout_, 64, 2, process.resources); },
        5, process.resources);
    testing::read_all(*reader, 5);
    reads[process.rank] = testing::read_all(*reader, 5);
  });
  EXPECT_TRUE(testing::join(reads) == expected);
}

INSTANTIATE_TEST_SUITE_P(Formats, SharedReading,
                         ::testing::Values(Kind::Norm, Kind::Raw, Kind::Table),
                         [](const auto& info) {
                           return info.param == Kind::Norm  ? std::string("Norm")
                                  : info.param == Kind::Raw ? std::string("Raw")
                                                            : std::string("Table");
                         });

TEST(SharedReadingOfMemory, EveryProcessHasAllOfIt) {
  const InputLayout layout = testing::make_layout(1, 0, false, {{1}});
  auto data = std::make_shared<MemoryData>();
  data->samples = 100;
  data->sparse.resize(1);
  data->sparse[0].row_offsets.push_back(0);
  for (int i = 0; i < 100; ++i) {
    data->label.push_back(static_cast<float>(i));
    data->sparse[0].keys.push_back(i);
    data->sparse[0].row_offsets.push_back(static_cast<std::uint64_t>(i) + 1);
  }
  const auto read = [&](std::size_t processes) {
    return testing::read_job(processes, 1, 2, 16, layout, [&](const JobProcess&) {
      return make_source({.memory = data}, layout, false, true);
    });
  };
  const std::vector<ProcessRead> both = read(2);
  EXPECT_TRUE(testing::join(both) == read(1)[0].batches);
  EXPECT_EQ(both[0].rows_decoded, 100u);
  EXPECT_EQ(both[1].rows_decoded, 100u);
}

}  // namespace
}  // namespace hugectr
