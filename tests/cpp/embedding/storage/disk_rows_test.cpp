// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/storage/disk_rows.hpp"

#include <chrono>
#include <cmath>
#include <fstream>
#include <thread>

#include "core/cpp/embedding/storage/no_room.hpp"
#include "tests/cpp/embedding/storage/links.hpp"

namespace hugectr {
namespace {

using namespace testing;

constexpr std::size_t kColumns[] = {64, 32, 4};  // as of a vector and two states
constexpr std::size_t kRowBytes = 100;

/// Columns for some places.
struct Arrays {
  explicit Arrays(std::size_t places) {
    for (const std::size_t bytes : kColumns) {
      data.emplace_back(places * bytes, std::byte{0xEE});
      columns.push_back({data.back().data(), bytes});
    }
  }
  std::vector<std::byte> row(std::size_t place) const {
    std::vector<std::byte> made;
    for (const RowColumn& column : columns) {
      const std::byte* from = column.data + place * column.bytes;
      made.insert(made.end(), from, from + column.bytes);
    }
    return made;
  }
  void set(std::size_t place, const std::vector<std::byte>& row) {
    const std::byte* from = row.data();
    for (const RowColumn& column : columns) {
      std::memcpy(column.data + place * column.bytes, from, column.bytes);
      from += column.bytes;
    }
  }
  std::vector<std::vector<std::byte>> data;
  std::vector<RowColumn> columns;
};

/// A DiskRows beside an array of all rows.
class Both {
 public:
  Both(const StoreSettings& settings, std::size_t places)
      : arrays(places),
        store(new SegmentStore(settings)),
        disk(arrays.columns, places, settings.max_rows, std::unique_ptr<SegmentStore>(store)) {}

  std::vector<std::byte>& plain(std::uint32_t row) { return all[row]; }
  void grow(std::size_t rows) { all.resize(rows, std::vector<std::byte>(kRowBytes)); }

  /// Rows are looked at and changed, as a step does.
  void step(const std::vector<std::uint32_t>& rows, std::mt19937& random) {
    std::vector<std::uint32_t> places(rows.size());
    disk.pin(rows, DiskRows::Want::Content, places);
    const bool change = random() % 4 != 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      ASSERT_EQ(arrays.row(places[i]), plain(rows[i])) << "row " << rows[i];
      if (change) arrays.set(places[i], plain(rows[i]) = drawn(random));
    }
    disk.unpin(places, change);
  }
  /// Rows are given content, as a cache above gives them back.
  void put(const std::vector<std::uint32_t>& rows, std::mt19937& random) {
    std::vector<std::uint32_t> places(rows.size());
    disk.pin(rows, DiskRows::Want::Nothing, places);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      arrays.set(places[i], plain(rows[i]) = drawn(random));
    }
    disk.unpin(places, true);
  }
  void read(const std::vector<std::uint32_t>& rows) {
    Arrays out(rows.size());
    disk.read(rows, out.columns);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      ASSERT_EQ(out.row(i), plain(rows[i])) << "row " << rows[i];
    }
  }
  void write(const std::vector<std::uint32_t>& rows, std::mt19937& random) {
    Arrays in(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) in.set(i, plain(rows[i]) = drawn(random));
    disk.write(rows, in.columns);
  }
  void forget(const std::vector<std::uint32_t>& rows) {
    disk.forget(rows);
    for (const std::uint32_t row : rows) plain(row).assign(kRowBytes, std::byte{0});
  }

  static std::vector<std::byte> drawn(std::mt19937& random) {
    std::vector<std::byte> row(kRowBytes);
    const std::uint32_t word = random();
    for (std::size_t b = 0; b < row.size(); ++b) row[b] = static_cast<std::byte>(word >> b % 25);
    return row;
  }

  std::vector<std::vector<std::byte>> all;
  Arrays arrays;
  SegmentStore* store;  ///< of disk
  DiskRows disk;
};

/// Rows first, first + step, ...: those of one thread.
std::vector<std::uint32_t> own_rows(std::mt19937& random, std::size_t rows, std::uint32_t thread,
                                    std::uint32_t threads, std::size_t most) {
  std::vector<std::uint32_t> chosen;
  for (std::size_t i = 0, n = 1 + random() % most; i < n; ++i) {
    // Few rows are asked for often, as in data.
    const double share = std::pow(random() / 4294967296.0, 3.0);
    chosen.push_back(static_cast<std::uint32_t>(share * (rows / threads)) * threads + thread);
  }
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

/// One operation of many; returns how many rows it was on.
void operate(Both& both, std::mt19937& random, std::uint32_t thread, std::uint32_t threads) {
  const auto rows = own_rows(random, both.all.size(), thread, threads, 24);
  switch (random() % 16) {
    case 0:
    case 1:
    case 2:
      return both.put(rows, random);
    case 3:
      return both.read(rows);
    case 4:
      return both.write(rows, random);
    case 5:
      if (random() % 4 == 0) return both.forget(rows);
      [[fallthrough]];
    default:
      return both.step(rows, random);
  }
}

/// All rows as a checkpoint has them: what the disk has by links, else copies.
class SavedRows {
 public:
  SavedRows(Both& both, const std::string& folder)
      : SavedRows(both, range(0, static_cast<std::uint32_t>(both.all.size())), folder) {}

  void load_into(Both& both) const {
    std::vector<std::byte> records(linked_.rows.size() * kRowBytes);
    LinkedSegments(kRowBytes, linked_.segments).read(linked_.places, records.data());
    Arrays linked(linked_.rows.size());
    for (std::size_t i = 0; i < linked_.rows.size(); ++i) {
      const std::byte* from = &records[i * kRowBytes];
      linked.set(i, {from, from + kRowBytes});
    }
    both.disk.write(linked_.rows, linked.columns);
    both.disk.write(rest_, copied_->columns);
  }
  std::size_t linked() const { return linked_.rows.size(); }
  std::size_t copied() const { return rest_.size(); }

 private:
  SavedRows(Both& both, const std::vector<std::uint32_t>& rows, const std::string& folder) {
    const StoredRows stored = both.disk.stored(rows);
    linked_ = link(stored, rows, folder);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (stored.at[i].segment == 0) rest_.push_back(rows[i]);
    }
    copied_ = std::make_unique<Arrays>(rest_.size());
    both.disk.read(rest_, copied_->columns);
  }

  Linked linked_;
  std::vector<std::uint32_t> rest_;
  std::unique_ptr<Arrays> copied_;
};

class DiskRowsThreads : public ::testing::TestWithParam<int> {};

TEST_P(DiskRowsThreads, AreAPlainArrayUnderRandomTraffic) {
  const auto threads = static_cast<std::uint32_t>(GetParam());
  const Folder folder;
  StoreSettings settings = small_store(folder / "rows");
  settings.threads = std::make_shared<IoThreads>(threads);
  auto both = std::make_unique<Both>(settings, 400);
  std::uint64_t swept = 0, misses = 0, linked = 0, copied = 0;
  constexpr int kPhases = 10;
  const int operations =
      times(20000, 100000) / 4 / kPhases;  // a quarter for each number of threads
  for (int phase = 0; phase < kPhases; ++phase) {
    both->grow(400 + 600 * (phase + 1));
    std::vector<std::thread> workers;
    for (std::uint32_t t = 0; t < threads; ++t) {
      workers.emplace_back([&, t] {
        std::mt19937 random(phase * 100 + t);
        for (std::uint32_t i = 0; i < operations / threads; ++i) operate(*both, random, t, threads);
      });
    }
    for (std::thread& worker : workers) worker.join();
    if (HasFatalFailure()) return;
    const DiskRowCounts counts = both->disk.counts();
    swept += counts.store.segments_swept;
    misses += counts.misses;
    if (phase % 3 == 2) {                  // a new process goes on from what was saved
      if (phase == 5) both->disk.flush();  // else rows are newer in memory
      const SavedRows saved(*both, folder / concat("saved", phase));
      linked += saved.linked();
      copied += saved.copied();
      auto all = std::move(both->all);
      both.reset();
      both = std::make_unique<Both>(settings, 400);
      both->all = std::move(all);
      saved.load_into(*both);
    }
    both->read(range(0, static_cast<std::uint32_t>(both->all.size())));
  }
  EXPECT_GT(swept, 0U);
  EXPECT_GT(misses, 1000U);
  EXPECT_GT(linked, 1000U);
  EXPECT_GT(copied, 0U);
}

INSTANTIATE_TEST_SUITE_P(All, DiskRowsThreads, ::testing::Values(1, 2, 4, 8),
                         [](const auto& info) { return std::to_string(info.param); });

TEST(DiskRows, KeepWhatWasUsedLast) {
  const Folder folder;
  Both both(small_store(folder / "rows"), 100);
  both.grow(1000);
  std::mt19937 random(1);
  both.put(range(0, 100), random);
  both.disk.flush();
  std::vector<std::uint32_t> places(50);
  both.disk.pin(range(0, 50), DiskRows::Want::Content, places);
  both.disk.unpin(places, false);
  both.put(range(100, 150), random);  // 50 .. 99 go
  const std::uint64_t before = both.disk.counts().misses;
  both.disk.pin(range(0, 50), DiskRows::Want::Content, places);
  both.disk.unpin(places, false);
  EXPECT_EQ(both.disk.counts().misses, before);
  both.disk.pin(range(50, 100), DiskRows::Want::Content, places);
  both.disk.unpin(places, false);
  EXPECT_EQ(both.disk.counts().misses, before + 50);
}

TEST(DiskRows, NamesTheRowsThatDoNotFit) {
  const Folder folder;
  Both both(small_store(folder / "rows"), 100);
  both.grow(1000);
  std::mt19937 random(1);
  both.put(range(0, 60), random);
  std::vector<std::uint32_t> places(60), more(41);
  both.disk.pin(range(0, 60), DiskRows::Want::Content, places);
  const std::string text = message_of<OutOfMemory>(
      [&] { both.disk.pin(range(100, 141), DiskRows::Want::Content, more); });
  EXPECT_TRUE(has(text, "users") && has(text, "101 rows") && has(text, "places for 100") &&
              has(text, "10100 bytes"))
      << text;
  both.disk.pin(range(100, 140), DiskRows::Want::Content, std::span(more).first(40));
  both.disk.unpin(std::span(more).first(40), false);
  both.disk.unpin(places, false);
  both.read(range(0, 1000));
}

TEST(DiskRows, AFullDiskStopsBeforeARowIsLostAndGoesOn) {
  for (int seed = 0; seed < times(6, 50); ++seed) {
    const Folder folder;
    StoreSettings settings = small_store(folder / "rows");
    const auto disk = std::make_shared<BadDisk>();
    std::mt19937 random(seed);
    disk->reserves = seed % 2 == 0;
    disk->room = static_cast<std::int64_t>(settings.segment_bytes * 3 + random() % 100000);
    settings.files = disk;
    Both both(settings, 200);
    both.grow(20000);
    int stops = 0;
    for (std::uint32_t step = 0; step < 150; ++step) {
      const auto rows = range(step * 100, step * 100 + 100);
      try {
        both.put(rows, random);
      } catch (const NoRoom& error) {
        ++stops;
        EXPECT_TRUE(has(error.what(), "users") && has(error.what(), "No space left"))
            << error.what();
        both.read(range(0, step * 100));  // all there
        disk->room += static_cast<std::int64_t>(settings.segment_bytes * 8);
        both.put(rows, random);  // at once
      }
    }
    EXPECT_GE(stops, 1);
    disk->room = INT64_MAX;
    both.disk.flush();
    both.read(range(0, 20000));
  }
}

TEST(DiskRows, WhatIsReservedIsPinnedWithoutTheDisk) {
  const Folder folder;
  StoreSettings settings = small_store(folder / "rows");
  const auto disk = std::make_shared<BadDisk>();
  settings.files = disk;
  Both both(settings, 100);
  both.grow(1000);
  std::mt19937 random(1);
  both.put(range(0, 100), random);
  both.disk.reserve(60);
  disk->reserves = false;
  disk->room = 0;  // from now on nothing can be written
  both.put(range(100, 160), random);
  EXPECT_THROW(both.disk.reserve(60), NoRoom);
  both.put(range(100, 160), random);  // they are there
  both.read(range(0, 160));
  disk->room = INT64_MAX;
  both.disk.reserve(60);
  both.put(range(200, 260), random);
  both.read(range(0, 300));
}

TEST(DiskRows, AFullDiskKeepsNobodyFromReading) {
  const Folder folder;
  StoreSettings settings = small_store(folder / "rows");
  const auto disk = std::make_shared<BadDisk>();
  settings.files = disk;
  Both both(settings, 100);
  both.grow(1000);
  std::mt19937 random(1);
  for (std::uint32_t first = 0; first < 400; first += 50)
    both.put(range(first, first + 50), random);
  both.disk.flush();
  both.put(range(0, 80), random);
  disk->reserves = false;
  disk->room = 0;
  EXPECT_THROW(both.disk.reserve(60), NoRoom);
  for (int i = 0; i < 3; ++i) {  // whether the thread has tried again or not
    both.read(range(0, 400));
    EXPECT_THROW(both.disk.reserve(60), NoRoom);
    EXPECT_EQ(both.disk.stored(range(0, 400)).at.size(), 400U);
  }
  both.forget(range(0, 80));  // what was not written needs no room
  both.disk.reserve(60);
  both.put(range(100, 160), random);
  both.read(range(0, 400));
  disk->room = INT64_MAX;
  both.disk.flush();
  both.read(range(0, 1000));
}

TEST(DiskRows, ThatAreForgottenAreOnNoDisk) {
  const Folder folder;
  Both both(small_store(folder / "rows"), 100);
  both.grow(2000);
  std::mt19937 random(1);
  for (std::uint32_t first = 0; first < 2000; first += 50) {
    both.put(range(first, first + 50), random);
  }
  both.disk.flush();
  EXPECT_EQ(both.disk.counts().store.rows, 2000U);
  const std::uint64_t before = both.disk.counts().store.segment_bytes;
  both.forget(range(0, 1900));
  EXPECT_EQ(both.disk.counts().store.rows, 100U);
  // The sweep takes them in its own time.
  const auto half_gone = [&] { return 2 * both.disk.counts().store.segment_bytes < before; };
  for (int i = 0; i < 500 && !half_gone(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(half_gone());
  both.read(range(0, 2000));
}

TEST(DiskRows, BeginAnewWhateverWentWrong) {
  for (int seed = 0; seed < times(8, 40); ++seed) {
    const Folder folder;
    StoreSettings settings = small_store(folder / "rows");
    const auto disk = std::make_shared<BadDisk>();
    settings.files = disk;
    Both both(settings, 200);
    both.grow(2000);
    std::mt19937 random(seed);
    for (std::uint32_t first = 0; first < 2000; first += 100) {
      both.put(range(first, first + 100), random);
    }
    std::vector<std::uint32_t> pinned(20);
    both.disk.pin(range(0, 20), DiskRows::Want::Content, pinned);  // by a move that has failed
    for (const std::string& path : segments_in(folder / "rows")) {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      const std::vector<char> other(300, 'x');
      for (int group = 1; group < 9; ++group) {
        file.seekp(4096 * group + 500).write(other.data(), 300);
      }
    }
    std::vector<std::uint32_t> places(150);
    EXPECT_THROW(both.disk.pin(range(500, 650), DiskRows::Want::Content, places), DataError);
    EXPECT_THROW(both.disk.check_undamaged(), DataError);
    if (seed % 2 == 1) disk->writes_until_error = 0;
    both.put(range(1000, 1100), random);
    both.disk.clear();
    disk->writes_until_error = -1;
    for (auto& row : both.all) row.assign(kRowBytes, std::byte{0});
    EXPECT_EQ(both.disk.counts().store.rows, 0U);
    both.disk.check_undamaged();
    both.read(range(0, 2000));
    for (int round = 0; round < 40; ++round) {
      both.step(own_rows(random, 2000, 0, 1, 100), random);
    }
    both.disk.flush();
    both.disk.check_undamaged();
    const StoredRows stored = both.disk.stored(range(0, 2000));
    for (const auto& [number, hold] : stored.segments) hold->file().verify(true);
    both.read(range(0, 2000));
  }
}

TEST(DiskRows, ABrokenDiskIsHeardAndLosesNothing) {
  for (int seed = 0; seed < times(4, 20); ++seed) {
    const Folder folder;
    StoreSettings settings = small_store(folder / "rows");
    const auto disk = std::make_shared<BadDisk>();
    settings.files = disk;
    Both both(settings, 200);
    both.grow(3000);
    std::mt19937 random(seed);
    int errors = 0;
    for (int step = 0; step < 200; ++step) {
      if (step % 20 == 10) disk->writes_until_error = static_cast<int>(random() % 3);
      if (step % 20 == 15) disk->reads_until_error = static_cast<int>(random() % 3);
      const auto rows = own_rows(random, 3000, 0, 1, 100);
      try {
        both.step(rows, random);
        if (HasFatalFailure()) return;
      } catch (const DataError& error) {
        ++errors;
        EXPECT_TRUE(has(error.what(), "users") && has(error.what(), "byte ")) << error.what();
      }
    }
    EXPECT_GT(errors, 0);
    disk->writes_until_error = disk->reads_until_error = -1;
    for (int i = 0; i < 5; ++i) {
      try {
        both.disk.flush();
        both.store->sync();
        break;
      } catch (const DataError&) {
      }
    }
    both.read(range(0, 3000));
  }
}

}  // namespace
}  // namespace hugectr
