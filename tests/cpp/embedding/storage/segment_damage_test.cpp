// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <thread>

#include "tests/cpp/embedding/storage/links.hpp"

/// Segments that somebody or something has changed: every row is right or an error names the place.
namespace hugectr {
namespace {

using namespace testing;

void change_byte(const std::string& path, std::uint64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  const char old = static_cast<char>(file.get());
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(static_cast<char>(old ^ 0x10));
}

/// Reads row by row; how many raised an error. Others must be right.
std::size_t errors_in(Checked& checked) {
  std::size_t errors = 0;
  for (std::uint32_t row = 0; row < checked.versions.size(); ++row) {
    const std::vector<std::uint32_t> one{row};
    bool seen = false;
    try {
      checked.store.read(one, [&](std::size_t, const std::byte* got) {
        const auto expected = content(row, checked.versions[row], 100);
        EXPECT_EQ(std::memcmp(got, expected.data(), 100), 0) << row;
        seen = true;
      });
      EXPECT_TRUE(seen);
    } catch (const DataError& error) {
      ++errors;
      EXPECT_TRUE(has(error.what(), "users") && has(error.what(), ".rows'") &&
                  has(error.what(), "byte ") && has(error.what(), "checkpoint"))
          << error.what();
    }
  }
  return errors;
}

TEST(SegmentDamage, IsNeverReadAsARow) {
  std::mt19937 random(7);
  for (int round = 0; round < times(8, 40); ++round) {
    const Folder folder;
    Checked checked(small_store(folder / "rows"));
    checked.write(range(0, 700));
    const std::vector<std::string> files = segments_in(folder / "rows");
    const std::string& file = files[0];  // the second is for sweeping
    const std::uint64_t size = std::filesystem::file_size(file);
    switch (round % 4) {
      case 0:
        change_byte(file, 4096 + random() % (size - 4096));
        EXPECT_GE(errors_in(checked), 1U);
        break;
      case 1:
        std::filesystem::resize_file(file, 4096 + random() % (size - 4096));
        EXPECT_GE(errors_in(checked), 1U);
        break;
      case 2: {  // two groups change places
        std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
        std::vector<char> one(4096), two(4096);
        stream.seekg(4096).read(one.data(), 4096).read(two.data(), 4096);
        stream.seekp(4096).write(two.data(), 4096).write(one.data(), 4096);
        stream.close();
        EXPECT_GE(errors_in(checked), 2 * 38U);
        break;
      }
      default: {  // zeros, as of a write that never came
        std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
        const std::vector<char> zeros(4096);
        stream.seekp(4096).write(zeros.data(), 4096);
        stream.close();
        EXPECT_EQ(errors_in(checked), 39U);
      }
    }
    checked.write(range(0, 700));  // what is written anew is whole again
    EXPECT_EQ(errors_in(checked), 0U);
  }
}

TEST(SegmentDamage, IsLeftAloneByTheSweepWhichSaysSo) {
  const Folder folder;
  Checked checked(small_store(folder / "rows"));
  checked.write(range(0, 312));  // one segment
  checked.write(range(1000, 1001));
  checked.versions.resize(312);
  const std::string file = segments_in(folder / "rows")[0];
  change_byte(file, 4096 + 500);
  checked.write(range(39, 300));  // what is left is due for a sweep
  std::string text;
  for (int wait = 0; wait < 1000 && text.empty(); ++wait) {
    try {
      checked.store.sync();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    } catch (const DataError& error) {
      text = error.what();
    }
  }
  EXPECT_TRUE(has(text, file) && has(text, "byte 4096") && has(text, "users")) << text;
  EXPECT_TRUE(std::filesystem::exists(file));
  EXPECT_EQ(errors_in(checked), 39U);  // those of its first group
  checked.write(range(0, 39));
  EXPECT_EQ(errors_in(checked), 0U);
}

/// What saving says, empty if it does not mind.
std::string refusal(SegmentStore& store) {
  try {
    store.check_undamaged();
  } catch (const DataError& error) {
    return error.what();
  }
  return {};
}

/// A store whose first segment is due for a sweep that can not read it.
struct Unread {
  Unread() : checked(settings()) {
    checked.write(range(0, 312));  // one segment
    checked.write(range(1000, 1001));
    file = segments_in(folder / "rows")[0];
    disk->unreadable = true;
    checked.write(range(39, 300));
  }
  /// Writes until the sweep says something or has removed the segment; what it says.
  std::string write() {
    for (int wait = 0; wait < 400; ++wait) {
      try {
        checked.write(range(1000, 1001));
      } catch (const DataError& error) {
        return error.what();
      }
      if (!std::filesystem::exists(file)) return {};
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return {};
  }

  const Folder folder;
  const std::shared_ptr<BadDisk> disk = std::make_shared<BadDisk>();
  Checked checked;
  std::string file;

 private:
  StoreSettings settings() {
    StoreSettings made = small_store(folder / "rows");
    made.files = disk;
    return made;
  }
};

TEST(SegmentDamage, WhatTheSweepCouldNotReadOnceIsSweptLater) {
  Unread store;
  EXPECT_TRUE(has(store.write(), store.file));
  store.disk->unreadable = false;
  while (!store.write().empty()) {
  }
  EXPECT_FALSE(std::filesystem::exists(store.file));
  store.checked.check();
}

TEST(SegmentDamage, WhatTheSweepCanNeverReadIsLeftAlone) {
  Unread store;
  int said = 0;
  while (!store.write().empty()) ++said;
  EXPECT_TRUE(said >= 1 && said <= SegmentLedger::kReadTries) << said;
  EXPECT_TRUE(has(refusal(store.checked.store), store.file));
  store.disk->unreadable = false;
  EXPECT_EQ(store.write(), "");
  EXPECT_TRUE(std::filesystem::exists(store.file));
  store.checked.check();
  // Before it is saved it is read, and then it is a segment as all others.
  EXPECT_EQ(refusal(store.checked.store), "");
  EXPECT_EQ(store.write(), "");
  EXPECT_FALSE(std::filesystem::exists(store.file));
  store.checked.check();
}

TEST(SegmentDamage, WhatCouldNotBeReadIsReadBeforeItIsSaved) {
  Unread store;
  store.disk->unreadable = true;
  const auto read = [&] { store.checked.store.read(range(0, 39), [](std::size_t, auto) {}); };
  EXPECT_TRUE(has(message_of<DataError>(read), store.file));
  EXPECT_TRUE(has(refusal(store.checked.store), "can not be read"));
  EXPECT_TRUE(
      has(message_of<DataError>([&] { store.checked.store.stored(range(0, 39)); }), "read"));
  change_byte(store.file, 4096 + 500);
  store.disk->unreadable = false;
  EXPECT_TRUE(has(refusal(store.checked.store), "has lost rows")) << "it was damaged all the same";
}

TEST(SegmentDamage, ReadErrorsAreNamed) {
  const Folder folder;
  StoreSettings settings = small_store(folder / "rows");
  const auto disk = std::make_shared<BadDisk>();
  settings.files = disk;
  Checked checked(settings);
  checked.write(range(0, 300));
  disk->reads_until_error = 2;
  EXPECT_EQ(errors_in(checked), 1U);
  checked.check();
}

TEST(SegmentDamage, ThatSomebodyHasMetIsNeverSaved) {
  for (const bool cut : {false, true}) {
    const Folder folder;
    Checked checked(small_store(folder / "rows"));
    checked.write(range(0, 700));
    const std::string file = segments_in(folder / "rows")[0];
    if (cut) {
      std::filesystem::resize_file(file, 4096 + 100);
    } else {
      change_byte(file, 4096 + 500);
    }
    EXPECT_EQ(refusal(checked.store), "");  // nobody knows
    const auto all = range(0, 700);
    const StoredRows held = checked.store.stored(all);
    EXPECT_GE(errors_in(checked), 39U);
    for (const std::string& text :
         {refusal(checked.store), message_of<DataError>([&] { checked.store.stored(all); })}) {
      EXPECT_TRUE(has(text, file) && has(text, cut ? "byte 4196" : "byte 4096")) << text;
      EXPECT_TRUE(has(text, "build the model again and resume")) << text;
    }
    checked.write(range(0, 700));  // nothing of it is in use any more
    EXPECT_EQ(refusal(checked.store), "");
    checked.store.stored(all);
  }
}

TEST(SegmentDamage, IsFoundWhenASegmentIsVerified) {
  for (const std::uint64_t at : {std::uint64_t{20}, std::uint64_t{4096 + 500}}) {
    const Folder folder;
    Checked checked(small_store(folder / "rows"));
    checked.write(range(0, 700));
    const auto all = range(0, 700);
    const StoredRows stored = checked.store.stored(all);
    ASSERT_GE(stored.segments.size(), 2U);
    for (const auto& [number, hold] : stored.segments) hold->file().verify(false);
    SegmentFile& file = stored.segments.begin()->second->file();
    change_byte(file.path(), at);
    file.verify(false);  // it was read
    EXPECT_EQ(refusal(checked.store), "");
    const std::string text = message_of<DataError>([&] { file.verify(true); });
    EXPECT_TRUE(has(text, file.path()) && has(text, at < 4096 ? "bytes 0 to" : "byte 4096"))
        << text;
    EXPECT_TRUE(has(refusal(checked.store), file.path()));
  }
}

TEST(SegmentDamage, AReadErrorOfASaveIsOneUntilItCanBeRead) {
  const Folder folder;
  StoreSettings settings = small_store(folder / "rows");
  const auto disk = std::make_shared<BadDisk>();
  settings.files = disk;
  Checked checked(settings);
  checked.write(range(0, 300));
  const StoredRows stored = checked.store.stored(range(0, 300));
  SegmentFile& file = stored.segments.begin()->second->file();
  disk->unreadable = true;
  EXPECT_TRUE(has(message_of<DataError>([&] { file.verify(false); }), file.path()));
  EXPECT_TRUE(has(refusal(checked.store), file.path()));
  disk->unreadable = false;
  EXPECT_EQ(refusal(checked.store), "");
  EXPECT_EQ(checked.store.stored(range(0, 300)).segments.size(), stored.segments.size());
}

}  // namespace
}  // namespace hugectr
