// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/storage/segment_store.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "tests/cpp/embedding/storage/stores.hpp"

namespace hugectr {
namespace {

using namespace testing;

TEST(SegmentStore, GivesBackWhatWasWritten) {
  for (const std::size_t row_bytes : {4, 100, 1544, 5000}) {
    const Folder folder;
    StoreSettings settings = small_store(folder / "rows", row_bytes);
    settings.segment_bytes = 4096 * 33;
    Checked checked(settings);
    std::mt19937 random(static_cast<unsigned>(row_bytes));
    for (int round = 0; round < 60; ++round) {
      checked.write(some_rows(random, 700, 300));
      if (round % 7 == 3) checked.forget(some_rows(random, 300, 50));
      if (round % 10 == 5) checked.check();
    }
    checked.check();
    EXPECT_GT(checked.store.counts().segments_swept, 0U);
  }
}

TEST(SegmentStore, SweepKeepsTheDiskBelowTwiceTheRows) {
  const Folder folder;
  StoreSettings settings = small_store(folder / "rows");
  Checked checked(settings);
  checked.write(range(0, 4000));
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) checked.write(some_rows(random, 4000, 400));
  checked.store.sync();
  for (int wait = 0; wait < 1000 && checked.store.counts().segments > 40; ++wait) {
    checked.store.write({}, {});
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  // 4000 rows are 13 segments; those of writes of a few rows have groups that are not full.
  EXPECT_LE(checked.store.counts().segments, 40U);
  EXPECT_GT(checked.store.counts().rows_moved, 0U);
  checked.store.sync();  // waits for the sweep's file
  EXPECT_LE(segments_in(folder / "rows").size(), 41U);
  checked.check();
}

TEST(SegmentStore, ReadersSeeWholeRowsWhileOthersAreWrittenAndSwept) {
  const Folder folder;
  Checked checked(small_store(folder / "rows"));
  const std::vector<std::uint32_t> still = range(0, 300);
  checked.write(still);
  checked.write(range(300, 1000));
  std::atomic<bool> stop = false;
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([&] {
      while (!stop) {
        std::atomic<int> seen = 0;
        checked.store.read(still, [&](std::size_t i, const std::byte* row) {
          const auto expected = content(still[i], 1, 100);
          EXPECT_EQ(std::memcmp(row, expected.data(), 100), 0);
          ++seen;
        });
        EXPECT_EQ(seen, 300);
      }
    });
  }
  std::mt19937 random(2);
  for (int round = 0; round < 150; ++round) {
    std::vector<std::uint32_t> rows = some_rows(random, 700, 300);
    for (std::uint32_t& row : rows) row += 300;
    checked.write(rows);
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_GT(checked.store.counts().segments_swept, 0U);
  checked.check();
}

TEST(SegmentStore, GoesThroughTheCacheWhereDirectIsRefused) {
  const Folder folder;
  StoreSettings settings = small_store(folder / "rows");
  const auto disk = std::make_shared<BadDisk>();
  disk->refuses_direct = true;
  disk->reserves = false;
  settings.files = disk;
  Checked checked(settings);
  std::mt19937 random(4);
  for (int round = 0; round < 40; ++round) checked.write(some_rows(random, 700, 300));
  checked.check();
}

TEST(SegmentStore, HasOneOwner) {
  const Folder folder;
  const StoreSettings settings = small_store(folder / "rows");
  {
    SegmentStore first(settings);
    const std::string text = message_of<InvalidArgument>([&] { SegmentStore second(settings); });
    EXPECT_TRUE(has(text, concat("process ", ::getpid()))) << text;
    EXPECT_TRUE(has(text, "which is this process") && has(text, "del model")) << text;
    EXPECT_TRUE(has(text, "table 'users'") && has(text, folder.path()) && has(text, "disk="))
        << text;
  }
  SegmentStore after(settings);
}

TEST(SegmentStore, RemovesWhatADeadOwnerLeftAndNothingElse) {
  const Folder folder;
  const std::string rows = folder / "rows";
  std::filesystem::create_directories(rows);
  for (const char* name : {"0000000001.rows", "0000000077.rows", "notes.txt", "1.rows",
                           "0000000001.rows.old", "abcdefghij.rows"}) {
    std::ofstream(rows + "/" + name) << "something";
  }
  std::filesystem::create_directories(rows + "/0000000002.rows");
  std::filesystem::create_symlink(rows + "/notes.txt", rows + "/0000000003.rows");
  Checked checked(small_store(rows));
  for (const char* name : {"notes.txt", "1.rows", "0000000001.rows.old", "abcdefghij.rows",
                           "0000000002.rows", "0000000003.rows"}) {
    EXPECT_TRUE(std::filesystem::exists(rows + "/" + name)) << name;
  }
  EXPECT_FALSE(std::filesystem::exists(rows + "/0000000001.rows"));
  EXPECT_FALSE(std::filesystem::exists(rows + "/0000000077.rows"));
}

TEST(SegmentStore, RemovesWhatDeadOwnersLeftBesideIt) {
  const Folder folder;
  const auto left = [&](const std::string& name) {
    std::filesystem::create_directories(folder / name);
    std::ofstream(folder / (name + "/owner")) << "process 1 on a machine, table users";
    const std::string segment = folder / (name + "/0000000001.rows");
    std::ofstream(segment) << "something";
    return segment;
  };
  const std::string device = left("users-7-device1"), table = left("other-table-12-device0");
  const std::string unlike = left("users"), no_number = left("users-x-device0");
  const std::string linked = left("real");
  std::filesystem::create_directory_symlink(folder / "real", folder / "users-8-device2");
  std::filesystem::create_directories(folder / "users-9-device3");  // without an owner
  std::ofstream(folder / "users-9-device3/0000000001.rows") << "something";
  Checked held(small_store(folder / "users-7-device2"));
  held.write(range(0, 500));
  {
    Checked store(small_store(folder / "users-7-device0"));
    store.write(range(0, 500));
    store.check();
  }
  held.check();
  for (const std::string& gone : {device, table}) {
    EXPECT_FALSE(std::filesystem::exists(gone)) << gone;
  }
  for (const std::string& stays :
       {unlike, no_number, linked, std::string(folder / "users-9-device3/0000000001.rows")}) {
    EXPECT_TRUE(std::filesystem::exists(stays)) << stays;
  }
}

TEST(SegmentStore, StoresThatBeginTogetherDoNotRefuseEachOther) {
  const Folder folder;
  for (int round = 0; round < 20; ++round) {
    std::vector<std::thread> threads;
    std::atomic<int> made = 0;
    for (int device = 0; device < 6; ++device) {
      threads.emplace_back([&, device] {
        SegmentStore store(small_store(folder / concat("users-7-device", device)));
        ++made;
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(made, 6);
  }
}

TEST(SegmentStore, LeavesNoFilesBehind) {
  const Folder folder;
  {
    Checked checked(small_store(folder / "rows"));
    checked.write(range(0, 3000));
    EXPECT_FALSE(segments_in(folder / "rows").empty());
  }
  EXPECT_TRUE(segments_in(folder / "rows").empty());
}

TEST(SegmentStore, RefusesWhatCanNotBe) {
  const Folder folder;
  StoreSettings settings = small_store(folder / "rows");
  settings.max_bytes = 2 * settings.segment_bytes;
  EXPECT_TRUE(has(message_of<InvalidArgument>([&] { SegmentStore store(settings); }),
                  std::to_string(4 * settings.segment_bytes)));
  settings = small_store(folder / "rows");
  settings.segment_bytes = 4096;
  EXPECT_THROW(SegmentStore store(settings), InvalidArgument);
  settings = small_store(folder / "rows");
  settings.max_rows = 10;
  SegmentStore store(settings);
  EXPECT_THROW(store.write(range(5, 11), [](std::size_t, std::byte*) {}), InvalidArgument);
  settings.folder = "/proc/nothing/rows";
  EXPECT_TRUE(has(message_of<DataError>([&] { SegmentStore other(settings); }), "/proc/nothing"));
}

}  // namespace
}  // namespace hugectr
