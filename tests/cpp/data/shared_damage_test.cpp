// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "core/cpp/base/error.hpp"
#include "core/cpp/data/norm_format.hpp"
#include "core/cpp/data/process_agreement.hpp"
#include "tests/cpp/data/shared_data.hpp"

namespace hugectr {
namespace {

using testing::JobBatch;
using testing::JobProcess;
using testing::ProcessRead;
using testing::Sample;
using testing::TempFolder;

/// "process <rank>: " goes before the text of an error that one process had.
std::string without_rank(const std::string& text) {
  return text.starts_with("process ") ? text.substr(text.find(": ") + 2) : text;
}

class SharedNormDamage : public ::testing::TestWithParam<Check> {
 protected:
  InputLayout layout_ = testing::make_layout(1, 2, false, {{2, 3}, {1}});
  std::random_device::result_type seed_ = std::random_device{}();
  std::mt19937 random_{seed_};
  TempFolder folder_;
  std::vector<std::string> files_;
  std::uint64_t range_bytes_ = 0;  ///< of one process

  void SetUp() override { ::setenv("HUGECTR_LOG_LEVEL", "4", 1); }

  /// Some way in which a file goes bad.
  void damage(std::string& bytes) {
    const std::size_t at = random_() % bytes.size();
    switch (random_() % 7) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random_() % 8));
        break;
      case 1:
        bytes.resize(at);
        break;
      case 2:
        bytes.erase(at, 1 + random_() % 200);
        break;
      case 3:
        bytes.insert(at, bytes.substr(at, 1 + random_() % 200));
        break;
      case 4:
        bytes += std::string(1 + random_() % 300, '\1');
        break;
      case 5:
        bytes[random_() % std::min<std::size_t>(69, bytes.size())] ^= 1;  // header
        break;
      default:
        bytes.clear();
    }
  }

  std::string write_files() {
    files_.clear();
    std::size_t first = 0;
    const std::size_t count = 1 + random_() % 6;
    for (std::size_t f = 0; f < count; ++f) {
      const std::size_t samples = random_() % 4 == 0 ? random_() % 3 : random_() % 60;
      std::string bytes = testing::norm_bytes(
          testing::make_samples(layout_, samples, first, random_), layout_, GetParam());
      first += samples;
      if (random_() % 2) damage(bytes);
      files_.push_back(folder_ / ("part" + std::to_string(f)));
      testing::write_bytes(files_.back(), bytes);
    }
    return testing::write_list(folder_, files_);
  }

  std::vector<ProcessRead> read(const std::string& list, std::size_t processes, std::size_t workers,
                                bool repeat, OnBadData policy) {
    return testing::read_job(
        processes, 1, workers, 24, layout_,
        [&](const JobProcess& process) -> std::unique_ptr<IBatchSource> {
          if (!process.group) {
            return testing::norm_source(list, layout_, GetParam(), repeat, policy, range_bytes_);
          }
          BlockReading reading;
          reading.repeat = repeat;
          reading.on_bad_data = policy;
          reading.shard = {process.rank, process.size};
          return make_block_source(make_norm_format(list, layout_, GetParam(), policy,
                                                    process.group->duplicate("norm"), 200),
                                   layout_, reading);
        },
        repeat ? 30 : 1000000);
  }
};

TEST_P(SharedNormDamage, EndsAsItDoesForOneProcess) {
  SCOPED_TRACE(concat("seed ", seed_));
  for (int round = 0; round < 60; ++round) {
    const std::string list = write_files();
    range_bytes_ = testing::kRangeBytes[random_() % std::size(testing::kRangeBytes)];
    for (const OnBadData policy : {OnBadData::Error, OnBadData::Skip}) {
      const bool repeat = round % 3 == 0;
      const ProcessRead expected = read(list, 1, 2, repeat, policy)[0];
      std::vector<ProcessRead> reads;
      try {
        reads = read(list, 2 + round % 3, 2, repeat, policy);
      } catch (const DataError& error) {
        // Nothing at all can be read: said at once, not in place of the first batch.
        EXPECT_EQ(without_rank(error.what()), expected.error) << "round " << round;
        EXPECT_TRUE(expected.batches.empty());
        continue;
      }
      const std::vector<JobBatch> batches = testing::join(reads);
      ASSERT_EQ(batches.size(), expected.batches.size()) << "round " << round << reads[0].error;
      for (std::size_t b = 0; b < batches.size(); ++b) {
        ASSERT_TRUE(batches[b].batch == expected.batches[b].batch) << round << ", batch " << b;
        ASSERT_TRUE(batches[b].next == expected.batches[b].next) << round << ", batch " << b;
      }
      EXPECT_EQ(without_rank(reads[0].error), expected.error) << "round " << round;
      if (!repeat && policy == OnBadData::Skip) {
        std::uint64_t bad = 0;
        for (const ProcessRead& one : reads) bad += one.bad_samples;
        EXPECT_EQ(bad, expected.bad_samples) << "round " << round;
      }
      if (HasFailure()) return;
    }
  }
}

TEST_P(SharedNormDamage, AChangedFileIsIndexedAnew) {
  files_ = {folder_ / "a", folder_ / "b"};
  const auto write = [&](const std::string& path, std::size_t first, std::size_t count) {
    testing::write_bytes(
        path, testing::norm_bytes(testing::make_samples(layout_, count, first, random_), layout_,
                                  GetParam()));
  };
  write(files_[0], 0, 50);
  write(files_[1], 50, 50);
  const std::string list = testing::write_list(folder_, files_);
  std::vector<ProcessRead> reads(2);
  testing::run_job(2, 1, [&](const JobProcess& process) {
    BlockReading reading;
    reading.repeat = false;
    reading.shard = {process.rank, process.size};
    const auto barrier = process.group->duplicate("barrier");
    const auto reader = make_data_reader(
        make_block_source(make_norm_format(list, layout_, GetParam(), OnBadData::Error,
                                           process.group->duplicate("norm"), 200),
                          layout_, reading),
        layout_, 16, 2, process.resources);
    EXPECT_EQ(testing::read_all(*reader).batches.size(), 7u);
    reader->set_source("");
    EXPECT_EQ(testing::read_all(*reader).batches.size(), 7u);
    std::vector<char> all(2);
    barrier->all_gather("x", 1, all.data());
    if (process.rank == 0) write(files_[1], 50, 90);
    barrier->all_gather("x", 1, all.data());
    reader->set_source("");
    reads[process.rank] = testing::read_all(*reader);
    // A list that one process alone can not read is an error for all.
    const std::string own = process.rank == 0 ? list : folder_ / "none";
    EXPECT_THROW(reader->set_source(own), DataError);
    EXPECT_THROW(reader->acquire(), DataError);
    // So is a list that is not the same for all.
    barrier->all_gather("x", 1, all.data());
    const std::string other =
        process.rank == 0 ? list : testing::write_list(folder_, {files_[0]}, "other.txt");
    EXPECT_THROW(reader->set_source(other), DataError);
    reader->set_source(list);
    EXPECT_EQ(testing::read_all(*reader).batches.size(), 9u);
  });
  EXPECT_EQ(testing::join(reads).size(), 9u);
  EXPECT_EQ(reads[0].rows_decoded + reads[1].rows_decoded, 340u);
}

INSTANTIATE_TEST_SUITE_P(Checks, SharedNormDamage, ::testing::Values(Check::Sum, Check::None),
                         [](const auto& info) {
                           return info.param == Check::Sum ? std::string("Sum")
                                                           : std::string("None");
                         });

class SharedBlocks : public ::testing::Test {
 protected:
  InputLayout layout_ = testing::make_layout(1, 2, true, {{2, 3}, {1}});
  std::mt19937 random_{17};
  std::shared_ptr<const std::vector<Sample>> samples_ =
      std::make_shared<const std::vector<Sample>>(testing::make_samples(layout_, 400, 0, random_));

  std::unique_ptr<IBatchSource> source(const JobProcess& process, OnBadData policy,
                                       std::vector<std::size_t> damaged,
                                       std::uint64_t block_rows = 20) {
    BlockReading reading;
    reading.repeat = false;
    reading.on_bad_data = policy;
    reading.shard = {process.rank, process.size};
    return make_block_source(
        testing::make_table_format(
            samples_, std::vector<std::uint64_t>(400 / block_rows, block_rows), layout_, damaged),
        layout_, reading);
  }
};

TEST_F(SharedBlocks, ADamagedOneIsSkippedOrAnErrorForAll) {
  ::setenv("HUGECTR_LOG_LEVEL", "4", 1);
  for (const OnBadData policy : {OnBadData::Skip, OnBadData::Error}) {
    const auto read = [&](std::size_t processes) {
      return testing::read_job(processes, 1, 3, 24, layout_, [&](const JobProcess& process) {
        return source(process, policy, {6, 7, 19});
      });
    };
    const ProcessRead expected = read(1)[0];
    for (const std::size_t processes : {2, 3, 4}) {
      const std::vector<ProcessRead> reads = read(processes);
      ASSERT_TRUE(testing::join(reads) == expected.batches);
      std::uint64_t bad = 0;
      for (const ProcessRead& one : reads) {
        bad += one.bad_samples;
        EXPECT_EQ(without_rank(one.error), expected.error);
        EXPECT_EQ(one.error, reads[0].error);
      }
      EXPECT_EQ(reads[0].error.starts_with("process "), policy == OnBadData::Error);
      EXPECT_EQ(bad, policy == OnBadData::Skip ? 60u : 0u);
    }
    EXPECT_EQ(expected.batches.size(), policy == OnBadData::Skip ? 17u : 5u);
  }
}

TEST_F(SharedBlocks, AnErrorComesAgainUntilTheSourceIsSet) {
  testing::run_job(3, 1, [&](const JobProcess& process) {
    const auto reader =
        make_data_reader(source(process, OnBadData::Error, {7}), layout_, 24, 2, process.resources);
    for (int round = 0; round < 3; ++round) {
      EXPECT_EQ(testing::read_all(*reader).batches.size(), 5u);
      for (int i = 0; i < 2; ++i) EXPECT_THROW(reader->acquire(), DataError);
      reader->set_source("");
    }
    reader->seek({.epoch = 0, .sample = 160});
    EXPECT_EQ(testing::read_all(*reader).batches.size(), 10u);
  });
}

TEST_F(SharedBlocks, ProcessesThatSeeOtherDataAreTold) {
  testing::run_job(2, 1, [&](const JobProcess& process) {
    const auto reader =
        make_data_reader(source(process, OnBadData::Error, {}, process.rank == 0 ? 20 : 40),
                         layout_, 24, 2, process.resources);
    const ProcessRead read = testing::read_all(*reader);
    EXPECT_NE(read.error.find("do not see the same data"), std::string::npos) << read.error;
    EXPECT_TRUE(read.batches.empty());
  });
}

TEST_F(SharedBlocks, AJobThatBreaksWakesAll) {
  std::atomic<int> so_far{0};
  testing::run_job(3, 1, [&](const JobProcess& process) {
    const auto reader =
        make_data_reader(source(process, OnBadData::Error, {}), layout_, 24, 2, process.resources);
    EXPECT_EQ(testing::read_all(*reader, 2).batches.size(), 2u);
    ++so_far;
    if (process.rank == 1) {
      while (so_far < 3) std::this_thread::yield();  // none may still be in a call that worked
      process.group->abort("the machine burns");
    } else {
      EXPECT_THROW(testing::read_all(*reader), CommError);
    }
  });
}

TEST_F(SharedBlocks, WhoLeavesEarlyIsNamed) {
  testing::run_job(2, 1, [&](const JobProcess& process) {
    auto reader =
        make_data_reader(source(process, OnBadData::Error, {}), layout_, 24, 2, process.resources);
    EXPECT_EQ(testing::read_all(*reader, 2).batches.size(), 2u);
    if (process.rank == 1) {
      reader.reset();  // waits for the other
    } else {
      try {
        testing::read_all(*reader);
        ADD_FAILURE() << "the data came without process 1";
      } catch (const CommError& error) {
        EXPECT_NE(std::string(error.what()).find("process 1"), std::string::npos) << error.what();
      }
    }
  });
}

TEST(ProcessAgreement, AllThrowWhatTheFirstFailedWith) {
  testing::run_job(3, 1, [&](const JobProcess& process) {
    together(process.group.get(), [] {});
    try {
      together(process.group.get(), [&] {
        if (process.rank == 1) throw InvalidArgument("no room");
        if (process.rank == 2) throw DataError("no file");
      });
      ADD_FAILURE();
    } catch (const InvalidArgument& error) {
      EXPECT_STREQ(error.what(), "process 1: no room");
    }
    try {
      together(process.group.get(), [] { throw DataError("no list"); });
      ADD_FAILURE();
    } catch (const DataError& error) {
      EXPECT_STREQ(error.what(), "no list");
    }
  });
}

}  // namespace
}  // namespace hugectr
