// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/storage/linked_segments.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/cpp/base/crc32.hpp"
#include "tests/cpp/embedding/storage/links.hpp"
#include "tests/fuzz/fuzz_case.hpp"
#include "tests/fuzz/seeds.hpp"

/// Segments that a checkpoint links: held while they are, summed without being read, and believed
/// in nothing when they come back.
namespace hugectr {
namespace {

using namespace testing;

/// A disk that tells which files were waited for.
class WatchedDisk final : public FileCalls {
 public:
  int error = 0;  ///< of the next sync
  bool cuts = true;
  std::set<std::string> synced;

  int cut(int descriptor, std::uint64_t bytes) override {
    return cuts ? FileCalls::cut(descriptor, bytes) : (errno = EIO, -1);
  }
  int sync(int descriptor) override {
    if (error != 0) return errno = std::exchange(error, 0), -1;
    const std::string name = concat("/proc/self/fd/", descriptor);
    synced.insert(std::filesystem::read_symlink(name).string());
    return FileCalls::sync(descriptor);
  }
};

TEST(LinkedSegments, HoldEachRowInAnyOrder) {
  std::mt19937 random(11);
  for (const std::size_t row_bytes : {100U, 5000U}) {
    const Folder folder;
    StoreSettings settings = small_store(folder / "rows", row_bytes);
    settings.segment_bytes = 4096 + 3 * GroupShape(row_bytes).bytes();
    Checked checked(settings);
    checked.write(range(0, 300));
    for (int round = 0; round < 5; ++round) checked.write(some_rows(random, 300, 120));
    checked.forget(some_rows(random, 300, 20));
    Linked linked = link(checked, folder / "linked");
    EXPECT_GT(linked.rows.size(), 100U);
    const LinkedSegments segments(row_bytes, linked.segments);
    std::vector<std::size_t> order(linked.rows.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (int round = 0; round < 3; ++round) {
      std::vector<std::uint64_t> places;
      for (const std::size_t i : order) places.push_back(linked.places[i]);
      std::vector<std::byte> got(places.size() * row_bytes);
      segments.read(places, got.data());
      for (std::size_t k = 0; k < order.size(); ++k) {
        const std::uint32_t row = linked.rows[order[k]];
        const auto expected = content(row, checked.versions[row], row_bytes);
        ASSERT_EQ(std::memcmp(got.data() + k * row_bytes, expected.data(), row_bytes), 0) << row;
      }
      std::shuffle(order.begin(), order.end(), random);
    }
    checked.check();  // and the store goes on
    checked.write(range(0, 300));
    checked.check();
  }
}

TEST(LinkedSegments, AreTheRowsOfTheirTimeWhateverComesAfter) {
  const Folder folder;
  std::mt19937 random(11);
  std::vector<Linked> saved;
  std::vector<std::vector<std::uint32_t>> versions;
  std::vector<std::vector<std::byte>> before;
  {
    Checked checked(small_store(folder / "rows"));
    for (int round = 0; round < 5; ++round) {
      for (int i = 0; i < 12; ++i) checked.write(some_rows(random, 900, 300));
      checked.forget(some_rows(random, 100, 20));
      saved.push_back(link(checked, folder / concat("saved", round)));
      versions.push_back(checked.versions);
      // Of segments half of whose rows are alive: how many those are goes with how far the sweep
      // is.
      EXPECT_GT(saved.back().rows.size(), 200U);
      for (const LinkedSegment& segment : saved.back().segments) {
        before.push_back(bytes_of(segment.path));
      }
    }
    const std::uint64_t swept = checked.store.counts().segments_swept;
    for (int i = 0; i < 60; ++i) checked.write(some_rows(random, 900, 300));
    checked.store.sync();
    EXPECT_GT(checked.store.counts().segments_swept, swept);
    checked.check();
  }
  // The store has removed its own names; the next one of the folder makes the same again.
  Checked next(small_store(folder / "rows"));
  for (int i = 0; i < 60; ++i) next.write(some_rows(random, 900, 300));
  for (std::size_t round = 0; round < saved.size(); ++round) {
    check_rows(saved[round], versions[round], 100);
  }
  auto expected = before.begin();
  for (const Linked& linked : saved) {
    for (const LinkedSegment& segment : linked.segments) {
      EXPECT_EQ(bytes_of(segment.path), *expected++) << segment.path;
    }
  }
  next.check();
}

TEST(LinkedSegments, HaveTheSumsOfTheirFiles) {
  const Folder folder;
  Checked checked(small_store(folder / "rows"));
  checked.write(range(0, 700));
  const StoredRows stored = checked.store.stored(range(0, 700));
  ASSERT_GT(stored.segments.size(), 1U);
  for (const auto& [number, hold] : stored.segments) {
    const SegmentFile& file = hold->file();
    const auto bytes = bytes_of(file.path());
    EXPECT_EQ(bytes.size(), file.sums().bytes());
    EXPECT_EQ(crc32(bytes.data(), 4096), file.head_sum());
    for (std::size_t chunk = 0; chunk < file.sums().sums().size(); ++chunk) {
      const std::size_t begin = chunk * ChunkSums::kChunkBytes;
      const std::size_t n = std::min(bytes.size() - begin, ChunkSums::kChunkBytes);
      EXPECT_EQ(crc32(bytes.data() + begin, n), file.sums().sums()[chunk]);
    }
  }
}

TEST(LinkedSegments, AreWaitedForByWhoLinksThem) {
  const Folder folder;
  const auto disk = std::make_shared<WatchedDisk>();
  StoreSettings settings = small_store(folder / "rows");
  settings.files = disk;
  Checked checked(settings);
  checked.write(range(0, 700));
  const StoredRows stored = checked.store.stored(range(0, 700));
  ASSERT_GT(stored.segments.size(), 1U);
  for (const auto& [number, hold] : stored.segments) {
    const std::string path = hold->file().path();
    EXPECT_FALSE(disk->synced.contains(path)) << path;
    disk->error = EIO;
    EXPECT_TRUE(has(message_of<DataError>([&] { hold->file().sync(); }), "can not sync '" + path));
    EXPECT_FALSE(disk->synced.contains(path)) << path;
    hold->file().sync();  // what failed is tried again
    EXPECT_TRUE(disk->synced.contains(path)) << path;
  }
}

TEST(LinkedSegments, LongerOnesThanTheirSumsAreNotShared) {
  const Folder folder;
  const auto disk = std::make_shared<WatchedDisk>();
  StoreSettings settings = small_store(folder / "rows");
  settings.files = disk;
  Checked checked(settings);
  disk->cuts = false;
  checked.write(range(0, 700));
  EXPECT_TRUE(checked.store.stored(range(0, 700)).segments.empty());
  disk->cuts = true;
  checked.write(range(0, 700));
  EXPECT_GT(checked.store.stored(range(0, 700)).segments.size(), 1U);
  const Linked linked = link(checked, folder / "linked");
  check_rows(linked, checked.versions, 100);
}

TEST(LinkedSegments, MostlyDeadOnesAreNotShared) {
  const Folder folder;
  Checked checked(small_store(folder / "rows"));
  checked.write(range(0, 320));  // one segment, but for what is left of the last group
  checked.write(range(0, 300));  // of which little is alive
  const StoredRows stored = checked.store.stored(range(0, 320));
  std::size_t shared = 0;
  for (std::uint32_t row = 0; row < 300; ++row) shared += stored.at[row].segment != 0;
  EXPECT_GT(shared, 150U);
  for (const auto& [number, hold] : stored.segments) EXPECT_GT(number, 1U);
}

TEST(LinkedSegments, HeldOnesKeepTheirNamesThroughTheSweep) {
  const Folder folder;
  Checked checked(small_store(folder / "rows"));
  checked.write(range(0, 700));
  StoredRows stored = checked.store.stored(range(0, 700));
  std::vector<std::string> paths;
  std::vector<std::vector<std::byte>> before;
  for (const auto& [number, hold] : stored.segments) {
    paths.push_back(hold->file().path());
    before.push_back(bytes_of(paths.back()));
  }
  ASSERT_GT(paths.size(), 1U);
  const std::uint64_t swept = checked.store.counts().segments_swept;
  for (int round = 0; round < 200 && checked.store.counts().segments_swept < swept + paths.size();
       ++round) {
    checked.write(range(0, 700));
    checked.store.sync();
  }
  EXPECT_GE(checked.store.counts().segments_swept, swept + paths.size());
  for (std::size_t i = 0; i < paths.size(); ++i) EXPECT_EQ(bytes_of(paths[i]), before[i]);
  stored = {};
  // Nearly always they were among those that were swept, and are gone; else they go now.
  const auto there = [&] {
    return std::ranges::any_of(paths,
                               [](const auto& path) { return std::filesystem::exists(path); });
  };
  for (int round = 0; round < 200 && there(); ++round) {
    checked.write(range(0, 700));
    checked.store.sync();
  }
  EXPECT_FALSE(there());
  checked.check();
}

TEST(LinkedSegments, ThoseWithNumbersThatAreNotFiniteAreNotShared) {
  const Folder folder;
  StoreSettings settings = small_store(folder / "rows");
  std::atomic<bool> strange = false;
  settings.is_finite = [&](const std::byte*) { return !strange; };
  Checked checked(settings);
  checked.write(range(0, 312));
  EXPECT_GT(link(checked, folder / "first").rows.size(), 0U);
  strange = true;
  checked.write(range(0, 312));
  EXPECT_EQ(link(checked, folder / "second").rows.size(), 0U);
}

TEST(LinkedSegments, NothingIsBelieved) {
  std::mt19937 random(3);
  const Folder folder;
  Checked checked(small_store(folder / "rows"));
  checked.write(range(0, 700));
  const Linked good = link(checked, folder / "linked");
  ASSERT_GE(good.segments.size(), 2U);
  std::vector<std::byte> got(good.places.size() * 100);
  const std::string first = good.segments[0].path;
  const auto bytes = bytes_of(first);
  const auto refused = [&](const Linked& linked) {
    return message_of<DataError>(
        [&] { LinkedSegments(100, linked.segments).read(linked.places, got.data()); });
  };
  const auto write = [&](const std::vector<std::byte>& data) {
    std::filesystem::remove(first);  // the store's own file stays as it is
    std::ofstream(first, std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(data.data()),
               static_cast<std::streamsize>(data.size()));
  };
  // Any byte: in the head, or in a group that is read.
  for (int round = 0; round < times(40, 400); ++round) {
    std::vector<std::byte> changed = bytes;
    changed[random() % changed.size()] ^= std::byte{0x20};
    write(changed);
    EXPECT_TRUE(has(refused(good), first));
  }
  // Any length.
  for (const std::size_t size : {std::size_t{0}, std::size_t{100}, std::size_t{4096},
                                 bytes.size() - 1, bytes.size() - 4096}) {
    std::vector<std::byte> cut = bytes;
    cut.resize(size);
    write(cut);
    EXPECT_TRUE(has(refused(good), first));
    Linked told = good;
    told.segments[0].bytes = size;  // a manifest that says so too
    EXPECT_FALSE(refused(told).empty());
  }
  // Another one's content, with its sums or without.
  write(bytes_of(good.segments[1].path));
  EXPECT_TRUE(has(refused(good), first));
  write(bytes);
  Linked swapped = good;
  std::swap(swapped.segments[0], swapped.segments[1]);
  LinkedSegments(100, swapped.segments);  // they are what they are
  // Another table's rows.
  EXPECT_TRUE(has(message_of<DataError>([&] { LinkedSegments(104, good.segments); }), first));
  // No file, a folder, a link, a pipe.
  std::filesystem::remove(first);
  EXPECT_TRUE(has(refused(good), first));
  std::filesystem::create_directory(first);
  EXPECT_TRUE(has(refused(good), first));
  std::filesystem::remove(first);
  std::filesystem::create_symlink(good.segments[1].path, first);
  EXPECT_TRUE(has(refused(good), first));
  std::filesystem::remove(first);
  ASSERT_EQ(::mkfifo(first.c_str(), 0600), 0);
  EXPECT_TRUE(has(refused(good), first));
  write(bytes);
  // Places that are nowhere.
  for (const std::uint64_t place :
       {std::uint64_t{good.segments.size()} << 32, ~std::uint64_t{0}, std::uint64_t{8} << 16,
        std::uint64_t{0xFFFF}, std::uint64_t{39}}) {
    Linked wrong = good;
    wrong.places.back() = place;
    EXPECT_FALSE(refused(wrong).empty()) << place;
  }
  EXPECT_THROW(LinkedSegments(100, {}).read(good.places, got.data()), DataError);
  LinkedSegments(100, good.segments).read(good.places, got.data());
  checked.check();
}

TEST(LinkedSegments, TheFuzzTargetTakesItsSeedsAndAnythingElse) {
  std::mt19937 random(5);
  for (const auto& [name, seed] : fuzzing::rows_seeds()) {
    EXPECT_EQ(fuzzing::fuzz_rows(seed), 4U) << name;
    std::uint64_t refused = 0;
    for (int round = 0; round < times(500, 20000); ++round) {
      std::string changed = seed;
      // Where most of the numbers are; and anywhere.
      const std::size_t within = round % 2 == 0 ? 64 : changed.size();
      for (std::size_t i = 0; i < 1 + random() % 3; ++i) {
        changed[1 + random() % (within - 1)] = static_cast<char>(random());
      }
      if (round % 8 == 0) changed.resize(random() % changed.size());
      refused += fuzzing::fuzz_rows(changed) == 0;
    }
    EXPECT_GT(refused, 0U) << name;
  }
}

}  // namespace
}  // namespace hugectr
