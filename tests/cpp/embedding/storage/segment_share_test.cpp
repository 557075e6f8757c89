// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "core/cpp/embedding/storage/no_room.hpp"
#include "core/cpp/embedding/storage/segment_snapshot.hpp"
#include "tests/cpp/embedding/storage/stores.hpp"

/// Segments in two places: by a link, which nobody writes to, or by a copy, which is on the disk
/// before anything names it.
namespace hugectr {
namespace {

using namespace testing;

/// A disk that tells what was waited for, and has no links to elsewhere.
class WatchedDisk final : public FileCalls {
 public:
  int link_error = EXDEV;  ///< 0: it has links
  int sync_error = 0;      ///< of the copy of a segment, once
  std::int64_t room = INT64_MAX;
  /// What was waited for while the folder had no index, and after.
  std::set<std::string> before, after;
  std::string folder;

  int link(const std::string& from, const std::string& to) override {
    if (link_error != 0) return errno = link_error, -1;
    return FileCalls::link(from, to);
  }
  ssize_t write(int descriptor, const void* from, std::size_t bytes,
                std::uint64_t offset) override {
    // Half of it, as systems do, then none.
    if (copies(descriptor)) {
      if (room <= 0) return errno = ENOSPC, -1;
      bytes = std::max<std::size_t>(bytes / 2, 1);
      room -= static_cast<std::int64_t>(bytes);
    }
    return FileCalls::write(descriptor, from, bytes, offset);
  }
  int sync_whole(int descriptor) override {
    if (sync_error != 0 && copies(descriptor)) return errno = std::exchange(sync_error, 0), -1;
    const bool indexed = std::filesystem::exists(folder + "/" + kSnapshotIndex);
    (indexed ? after : before).insert(path_of(descriptor));
    return FileCalls::sync_whole(descriptor);
  }

 private:
  static std::string path_of(int descriptor) {
    return std::filesystem::read_symlink(concat("/proc/self/fd/", descriptor)).string();
  }
  /// Whether it is a segment in the watched folder.
  bool copies(int descriptor) const {
    const std::string path = path_of(descriptor);
    return path.starts_with(folder + "/") && path.ends_with(SegmentFile::kSuffix);
  }
};

std::string bytes_of(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(bytes).str();
}

std::map<std::string, std::string> files_of(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files[entry.path().filename().string()] = bytes_of(entry.path().string());
  }
  return files;
}

TEST(SegmentShare, WhatIsLinkedNeverChanges) {
  const Folder folder;
  std::mt19937 random(3);
  std::map<std::string, std::string> saved;
  {
    Checked checked(small_store(folder / "rows"));
    for (int i = 0; i < 20; ++i) checked.write(some_rows(random, 900, 300));
    checked.store.link_into(folder / "saved");
    saved = files_of(folder / "saved");
    ASSERT_GT(saved.size(), 3U);
    const std::uint64_t swept = checked.store.counts().segments_swept;
    for (int i = 0; i < 60; ++i) {
      checked.write(some_rows(random, 900, 300));
      if (i % 20 == 0) checked.store.link_into(folder / concat("later", i));
    }
    checked.store.sync();
    EXPECT_GT(checked.store.counts().segments_swept, swept);
    EXPECT_EQ(files_of(folder / "saved"), saved);
  }
  EXPECT_EQ(files_of(folder / "saved"), saved);  // the store has removed its own names
  {
    Checked again(small_store(folder / "rows"));
    again.store.restore(folder / "saved");
    for (int i = 0; i < 60; ++i) again.write(some_rows(random, 900, 300));
  }
  EXPECT_EQ(files_of(folder / "saved"), saved);
}

TEST(SegmentShare, ACopyIsOnTheDiskBeforeTheIndexThatNamesIt) {
  const Folder folder;
  const auto disk = std::make_shared<WatchedDisk>();
  disk->folder = folder / "deep/saved";
  StoreSettings settings = small_store(folder / "rows");
  settings.files = disk;
  Checked checked(settings);
  checked.write(range(0, 3000));
  checked.store.link_into(disk->folder);
  const std::vector<std::string> copies = segments_in(disk->folder);
  ASSERT_GT(copies.size(), 3U);
  for (const std::string& file : copies) {
    struct stat status{};
    ASSERT_EQ(::stat(file.c_str(), &status), 0);
    EXPECT_EQ(status.st_nlink, 1U);
    EXPECT_TRUE(disk->before.contains(file)) << file;
  }
  EXPECT_TRUE(disk->before.contains(disk->folder + "/index.part"));
  EXPECT_TRUE(disk->before.contains(disk->folder)) << "names of the segments";
  EXPECT_TRUE(disk->after.contains(disk->folder)) << "the name of the index";
  EXPECT_TRUE(disk->before.contains(folder / "deep"));  // names of folders that were made
  EXPECT_TRUE(disk->before.contains(folder.path()));

  // And back: a store that has copies may be linked elsewhere at once.
  const auto other = std::make_shared<WatchedDisk>();
  other->folder = folder / "others";
  settings.folder = other->folder;
  settings.files = other;
  Checked again(settings);
  again.store.restore(disk->folder);
  again.versions = checked.versions;
  for (const std::string& file : segments_in(other->folder)) {
    EXPECT_TRUE(other->before.contains(file)) << file;
  }
  again.check();
}

TEST(SegmentShare, ACopyThatFailsLeavesNothing) {
  const Folder folder;
  const auto disk = std::make_shared<WatchedDisk>();
  disk->folder = folder / "saved";
  StoreSettings settings = small_store(folder / "rows");
  settings.files = disk;
  Checked checked(settings);
  checked.write(range(0, 3000));
  disk->sync_error = EIO;
  EXPECT_TRUE(has(message_of<DataError>([&] { checked.store.link_into(disk->folder); }),
                  "can not sync '" + disk->folder));
  EXPECT_TRUE(files_of(disk->folder).empty());
  disk->room = 100000;  // of more than twice as much
  EXPECT_TRUE(has(message_of<NoRoom>([&] { checked.store.link_into(disk->folder); }),
                  "can not write '" + disk->folder));
  EXPECT_TRUE(files_of(disk->folder).empty());
  disk->room = INT64_MAX;
  disk->link_error = EACCES;  // no reason to copy
  EXPECT_TRUE(has(message_of<DataError>([&] { checked.store.link_into(disk->folder); }),
                  "can not link '" + disk->folder));
  EXPECT_TRUE(files_of(disk->folder).empty());
  disk->link_error = EXDEV;
  checked.store.link_into(disk->folder);  // once there is room
  checked.check();
  settings.folder = folder / "others";
  settings.files = std::make_shared<FileCalls>();
  Checked again(settings);
  again.store.restore(disk->folder);
  again.versions = checked.versions;
  again.check();
}

TEST(SegmentShare, AFileThatIsThereIsNotTouched) {
  const Folder folder;
  Checked checked(small_store(folder / "rows"));
  checked.write(range(0, 900));
  std::filesystem::create_directories(folder / "saved");
  const std::vector<std::string> segments = segments_in(folder / "rows");
  const std::string own =
      folder / "saved/" + std::filesystem::path(segments.back()).filename().string();
  std::ofstream(own) << "somebody's";
  EXPECT_TRUE(has(message_of<DataError>([&] { checked.store.link_into(folder / "saved"); }), own));
  EXPECT_EQ(files_of(folder / "saved").size(), 1U);
  EXPECT_EQ(bytes_of(own), "somebody's");
}

TEST(SegmentShare, AnotherFileSystemGetsCopies) {
  struct stat here{}, there{};
  const Folder folder;
  const std::string memory = "/dev/shm";
  if (::stat(folder.path().c_str(), &here) != 0 || ::stat(memory.c_str(), &there) != 0 ||
      here.st_dev == there.st_dev || ::access(memory.c_str(), W_OK) != 0) {
    GTEST_SKIP() << "there is no second file system";
  }
  const std::string to = concat(memory, "/hctr-share-", ::getpid());
  Checked checked(small_store(folder / "rows"));
  checked.write(range(0, 3000));
  checked.store.link_into(to);
  {
    Checked again(small_store(folder / "others"));
    again.store.restore(to);
    again.versions = checked.versions;
    again.check();
  }
  std::filesystem::remove_all(to);
}

}  // namespace
}  // namespace hugectr
