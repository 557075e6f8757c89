// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "core/cpp/embedding/storage/segment_store.hpp"

namespace hugectr::testing {

/// An empty folder that goes with the object.
class Folder {
 public:
  Folder() {
    static std::atomic<int> count = 0;
    path_ = concat(::testing::TempDir(), "hctr-store-", ::getpid(), "-", count++);
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Folder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// How often something is tried: `HUGECTR_STORAGE_FULL=1 storage_test` tries all of it.
inline int times(int in_short, int in_full) {
  return std::getenv("HUGECTR_STORAGE_FULL") == nullptr ? in_short : in_full;
}

/// What a row holds: nobody else computes it like that.
inline std::vector<std::byte> content(std::uint32_t row, std::uint32_t version, std::size_t bytes) {
  std::vector<std::byte> made(bytes);
  std::mt19937 random(row * 2654435761U + version * 40503U + 1);
  for (std::byte& b : made) b = static_cast<std::byte>(random());
  return made;
}

/// A disk that does what it is told to.
class BadDisk final : public FileCalls {
 public:
  std::atomic<std::int64_t> room = INT64_MAX;  ///< bytes that may still be asked for
  std::atomic<int> reads_until_error = -1, writes_until_error = -1;  ///< then EIO, once
  std::atomic<bool> unreadable = false;
  std::atomic<bool> short_writes = false, refuses_direct = false, reserves = true;

  int open(const std::string& path, int flags) override {
    if (refuses_direct && (flags & O_DIRECT) != 0) return errno = EINVAL, -1;
    return FileCalls::open(path, flags);
  }
  ssize_t read(int descriptor, void* to, std::size_t bytes, std::uint64_t offset) override {
    if (unreadable) return errno = EIO, -1;
    if (reads_until_error >= 0 && reads_until_error-- == 0) return errno = EIO, -1;
    return FileCalls::read(descriptor, to, bytes, offset);
  }
  ssize_t write(int descriptor, const void* from, std::size_t bytes,
                std::uint64_t offset) override {
    if (writes_until_error >= 0 && writes_until_error-- == 0) return errno = EIO, -1;
    if (!reserves && !takes(bytes)) return errno = ENOSPC, -1;
    if (short_writes && bytes > 4096) bytes = 4096;
    return FileCalls::write(descriptor, from, bytes, offset);
  }
  int reserve(int descriptor, std::uint64_t bytes) override {
    if (!reserves) return errno = EOPNOTSUPP, -1;
    if (!takes(bytes)) return errno = ENOSPC, -1;
    return FileCalls::reserve(descriptor, bytes);
  }

 private:
  bool takes(std::uint64_t bytes) {
    const auto asked = static_cast<std::int64_t>(bytes);
    if (room < asked) return false;
    room -= asked;
    return true;
  }
};

inline StoreSettings small_store(const std::string& folder, std::size_t row_bytes = 100) {
  StoreSettings settings;
  settings.folder = folder;
  settings.table = "users";
  settings.row_bytes = row_bytes;
  settings.max_rows = 1 << 20;
  settings.max_bytes = std::uint64_t{1} << 30;
  settings.segment_bytes = 4096 * 9;  // a head and eight groups
  settings.threads = std::make_shared<IoThreads>(4);
  return settings;
}

/// A store and what must be in it.
class Checked {
 public:
  explicit Checked(const StoreSettings& settings) : bytes_(settings.row_bytes), store(settings) {}

  /// Writes a next version of the rows.
  void write(const std::vector<std::uint32_t>& rows) {
    std::vector<std::vector<std::byte>> next;
    for (const std::uint32_t row : rows) {
      if (row >= versions.size()) versions.resize(row + 1, 0);
      next.push_back(content(row, versions[row] + 1, bytes_));
    }
    store.write(rows,
                [&](std::size_t i, std::byte* to) { std::memcpy(to, next[i].data(), bytes_); });
    for (const std::uint32_t row : rows) ++versions[row];
  }
  void forget(const std::vector<std::uint32_t>& rows) {
    store.forget(rows);
    for (const std::uint32_t row : rows) versions[row] = 0;
  }
  /// All rows are as they were written last.
  void check() {
    std::vector<std::uint32_t> rows(versions.size());
    for (std::uint32_t row = 0; row < rows.size(); ++row) rows[row] = row;
    std::vector<std::vector<std::byte>> got(rows.size());
    store.read(rows,
               [&](std::size_t i, const std::byte* row) { got[i].assign(row, row + bytes_); });
    for (const std::uint32_t row : rows) {
      const auto expected =
          versions[row] == 0 ? std::vector<std::byte>{} : content(row, versions[row], bytes_);
      ASSERT_EQ(got[row], expected) << "row " << row;
    }
  }

 private:
  std::size_t bytes_;

 public:
  SegmentStore store;
  std::vector<std::uint32_t> versions;  ///< 0: not there
};

inline std::vector<std::uint32_t> range(std::uint32_t first, std::uint32_t end) {
  std::vector<std::uint32_t> rows;
  for (std::uint32_t row = first; row < end; ++row) rows.push_back(row);
  return rows;
}

inline std::vector<std::uint32_t> some_rows(std::mt19937& random, std::uint32_t of,
                                            std::size_t most) {
  std::vector<std::uint32_t> rows = range(0, of);
  std::shuffle(rows.begin(), rows.end(), random);
  rows.resize(std::min<std::size_t>(of, 1 + random() % most));
  return rows;
}

/// The message of what `call` throws, which must be an E.
template <class E, class Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline std::vector<std::string> segments_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == SegmentFile::kSuffix) names.push_back(entry.path().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace hugectr::testing
