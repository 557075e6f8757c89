// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>

#include <csignal>

#include "core/cpp/embedding/storage/no_room.hpp"
#include "tests/cpp/embedding/storage/stores.hpp"

/// Disks that are full: nothing is lost, and once there is room writing goes on.
namespace hugectr {
namespace {

using namespace testing;

/// Fills it until it says so; what it says.
std::string fill(Checked& checked, std::mt19937& random) {
  for (int round = 0; round < 10000; ++round) {
    const std::vector<std::uint32_t> rows =
        range(static_cast<std::uint32_t>(checked.versions.size()),
              static_cast<std::uint32_t>(checked.versions.size() + 1 + random() % 500));
    const std::vector<std::uint32_t> before = checked.versions;
    try {
      checked.write(rows);
    } catch (const NoRoom& error) {
      checked.versions = before;
      // Those of the failed call are as before or as they were to be: new ones, so either is.
      checked.store.forget(rows);
      return error.what();
    }
  }
  ADD_FAILURE() << "it never was full";
  return {};
}

std::uintmax_t bytes_in(const std::string& folder) {
  std::uintmax_t bytes = 0;
  for (const std::string& path : segments_in(folder)) {
    std::error_code gone;  // the sweep may be at it
    const std::uintmax_t size = std::filesystem::file_size(path, gone);
    if (!gone) bytes += size;
  }
  return bytes;
}

/// Of files of this process, while it lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::size_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &old_);
    rlimit low = old_;
    low.rlim_cur = bytes;
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit old_{};
  void (*handler_)(int);
};

/// Hears what went wrong in the sweep.
void settle(Checked& checked) {
  for (int i = 0; i < 3; ++i) {
    try {
      checked.store.sync();
      return;
    } catch (const DataError&) {
    }
  }
  checked.store.sync();
}

TEST(SegmentRoom, AFullDiskIsNamedAndGoesOnWhenThereIsRoom) {
  for (int seed = 0; seed < times(6, 25); ++seed) {
    const Folder folder;
    StoreSettings settings = small_store(folder / "rows");
    const auto disk = std::make_shared<BadDisk>();
    std::mt19937 random(seed);
    disk->reserves = seed % 2 == 0;
    disk->short_writes = seed % 3 == 0;
    disk->room = static_cast<std::int64_t>(settings.segment_bytes * 5 + random() % 100000);
    settings.files = disk;
    Checked checked(settings);
    const std::string text = fill(checked, random);
    EXPECT_TRUE(has(text, "users") && has(text, "byte ") && has(text, ".rows") &&
                has(text, "No space left") && has(text, "no row is lost"))
        << text;
    checked.check();
    disk->room += 400000;
    checked.write(range(0, 500));  // the same call once more
    checked.check();
    fill(checked, random);
    checked.check();
  }
}

TEST(SegmentRoom, HolesAreRoom) {
  // Rows that are written again and again need no more than twice their room and what is open.
  for (int seed = 0; seed < times(3, 10); ++seed) {
    const Folder folder;
    StoreSettings settings = small_store(folder / "rows");
    const auto disk = std::make_shared<BadDisk>();
    settings.files = disk;
    settings.max_bytes = settings.segment_bytes * 12;
    Checked checked(settings);
    std::mt19937 random(seed);
    checked.write(range(0, 1900));  // 6 segments
    for (int round = 0; round < 100; ++round) checked.write(some_rows(random, 1900, 700));
    checked.check();
    EXPECT_LE(checked.store.counts().segments, 12U);
  }
}

TEST(SegmentRoom, SavesTakeNone) {
  // As many rows as a budget promises, written again and again: what ends segments early changes
  // nothing, and there are never many files.
  for (int seed = 0; seed < times(4, 20); ++seed) {
    const Folder folder;
    StoreSettings settings = small_store(folder / "rows");
    const std::size_t segments = 4 + 7 * (seed % 4);
    settings.max_bytes = settings.segment_bytes * segments;
    Checked checked(settings);
    const std::size_t kept = SegmentLedger::rows_kept(8, checked.store.shape());
    const auto most = static_cast<std::uint32_t>((segments - 3) * kept);
    std::mt19937 random(seed);
    const std::uint32_t every = 1 + random() % 5;
    for (std::uint32_t first = 0; first < most; first += 100) {
      checked.write(range(first, std::min(first + 100, most)));
      if (first / 100 % every == 0) checked.store.stored(range(0, first));
    }
    for (int round = 0; round < 300; ++round) {
      checked.write(some_rows(random, most, 1 + random() % (most / 2)));
      if (random() % every == 0) checked.store.stored(range(0, most));
      ASSERT_LE(segments_in(folder / "rows").size(), 2 * segments);
      ASSERT_LE(bytes_in(folder / "rows"), settings.max_bytes);
    }
    checked.check();
  }
}

TEST(SegmentRoom, HasMoreFilesThanTheSoftLimitOfOpenOnes) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_GE(before.rlim_max, 1000U) << "no limit to raise";
  rlimit low = before;
  low.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const Folder folder;
  Checked checked(small_store(folder / "rows"));
  checked.write(range(0, 40000));  // 128 segments
  checked.check();
  EXPECT_GT(segments_in(folder / "rows").size(), 100U);
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST(SegmentRoom, ABudgetIsNamed) {
  const Folder folder;
  StoreSettings settings = small_store(folder / "rows");
  settings.max_bytes = settings.segment_bytes * 6;
  Checked checked(settings);
  std::mt19937 random(1);
  const std::string text = fill(checked, random);
  EXPECT_TRUE(has(text, "6 segments") && has(text, "Memory(disk=)") && has(text, "users")) << text;
  checked.check();
  checked.forget(range(0, 600));
  checked.write(range(0, 300));
  checked.check();
}

TEST(SegmentRoom, ALimitOfTheProcessIsAFullDisk) {
  const Folder folder;
  StoreSettings settings = small_store(folder / "rows");
  Checked checked(settings);
  checked.write(range(0, 1000));
  std::mt19937 random(1);
  std::string text;
  {
    const FileSizeLimit limit(20000);
    text = fill(checked, random);
  }
  EXPECT_TRUE(has(text, "File too large")) << text;
  checked.check();
  checked.write(range(0, 3000));
  checked.check();
}

TEST(SegmentRoom, ABrokenDiskIsNamedAndLosesNothing) {
  for (int seed = 0; seed < times(4, 30); ++seed) {
    const Folder folder;
    StoreSettings settings = small_store(folder / "rows");
    const auto disk = std::make_shared<BadDisk>();
    settings.files = disk;
    Checked checked(settings);
    std::mt19937 random(seed);
    checked.write(range(0, 2000));
    int errors = 0;
    for (int round = 0; round < 60; ++round) {
      if (round % 6 == 2) disk->writes_until_error = static_cast<int>(random() % 5);
      const std::vector<std::uint32_t> rows = some_rows(random, 2000, 600);
      const std::vector<std::uint32_t> before = checked.versions;
      try {
        checked.write(rows);
      } catch (const DataError& error) {
        ++errors;
        EXPECT_TRUE(has(error.what(), "users") && has(error.what(), "byte ") &&
                    has(error.what(), ".rows"))
            << error.what();
        checked.versions = before;
        disk->writes_until_error = -1;
        settle(checked);
        // Each row is as before the call or as it was to be.
        std::vector<std::uint32_t> kept = before;
        checked.store.read(rows, [&](std::size_t i, const std::byte* row) {
          const auto old = content(rows[i], before[rows[i]], 100);
          const auto now = content(rows[i], before[rows[i]] + 1, 100);
          const bool is_now = std::memcmp(row, now.data(), 100) == 0;
          EXPECT_TRUE(is_now || std::memcmp(row, old.data(), 100) == 0);
          if (is_now) ++kept[rows[i]];
        });
        checked.versions = kept;
      }
    }
    EXPECT_GT(errors, 0);
    disk->writes_until_error = -1;
    settle(checked);
    checked.check();
  }
}

}  // namespace
}  // namespace hugectr
